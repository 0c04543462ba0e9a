package local

import (
	"fmt"

	"queen.internal/pkg/pgserver"
)

// choosePorts gives every process its port, edge included, before anything is started: each must know the others'.
// Only a port that the caller asked for by number has to be exactly that one.
func choosePorts(edgePort int, processes []*process) error {
	taken := map[int]bool{}
	for _, p := range processes {
		native := 0
		if edgePort != 0 && p.copy == 1 {
			native = edgePort + p.offset
		}
		switch {
		case native != 0 && pgserver.PortFree(native) && !taken[native]:
			p.port = native
		case native != 0 && p.service == Edge:
			return fmt.Errorf("port %d for the edge is taken: stop what listens there or choose another with EDGE_PORT", native)
		default:
			port, err := pgserver.FreePort()
			if err != nil {
				return fmt.Errorf("choose a port for %s: %w", p.name, err)
			}
			p.port, p.displaced = port, native
		}
		taken[p.port] = true
	}
	return chooseMeshPorts(processes, taken)
}

// chooseMeshPorts gives a port to the node of every process that has one.
func chooseMeshPorts(processes []*process, taken map[int]bool) error {
	for _, p := range processes {
		for p.meshed() && (p.meshPort == 0 || taken[p.meshPort]) {
			var err error
			if p.meshPort, err = pgserver.FreePort(); err != nil {
				return fmt.Errorf("choose a mesh port for %s: %w", p.name, err)
			}
		}
		taken[p.meshPort] = true
	}
	return nil
}
