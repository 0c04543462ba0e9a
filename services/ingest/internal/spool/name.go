package spool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	lockName   = "lock"
	asideName  = "aside"
	againName  = "retry"
	fileSuffix = ".spool"

	// maxServerBytes leaves room for the id in a name, which file systems end at 255 bytes.
	maxServerBytes = 120
)

// Name is a spool by its folder's name.
type Name struct {
	Server string // the owner's server id, as far as a folder's name can have it
	ID     uuid.UUID
}

// ServerName is a server id as it appears in names of folders.
func ServerName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), maxServerBytes)]
}

func (n Name) String() string { return n.Server + "." + n.ID.String() }

// parseName reads the name of a spool's folder.
func parseName(folder string) (Name, bool) {
	cut := len(folder) - 36
	if cut < 1 || folder[cut-1] != '.' {
		return Name{}, false
	}
	id, err := uuid.Parse(folder[cut:])
	if err != nil || id.String() != folder[cut:] {
		return Name{}, false
	}
	return Name{Server: folder[:cut-1], ID: id}, true
}

func fileName(number uint64) string { return fmt.Sprintf("%010d%s", number, fileSuffix) }

// parseFileName is the number of a file by its name, false when it is none of a spool.
func parseFileName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && number > 0
}
