package disk

import (
	"fmt"
	"syscall"
)

// remote are file systems whose server decides what is durable and whose locks may be taken away: statfs numbers of the
// kernel's magic.h, in 32 bits.
var remote = map[uint32]string{
	0x6969: "nfs", 0x517B: "smb", 0xFF534D42: "cifs", 0xFE534D42: "smb2", 0x5346414F: "afs", 0x00C36400: "ceph",
	0x73757245: "coda", 0x564C: "ncp", 0x01161970: "gfs2", 0x7461636F: "ocfs2", 0x0BD00BD0: "lustre", 0x01021997: "9p",
	0x47504653: "gpfs", 0xAAD7AAEA: "panfs",
}

// Remote names the network file system that path lies on; it is empty for a local one.
func Remote(path string) (string, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return "", fmt.Errorf("ask for the file system of %s: %w", path, err)
	}
	return remote[uint32(s.Type)], nil
}
