package appendlog

import "queen.internal/pkg/mesh"

// Hints is what an announcement is for other processes.
func Hints(announcements []Announcement) []mesh.Hint {
	hints := make([]mesh.Hint, len(announcements))
	for i := range announcements {
		a := &announcements[i]
		hints[i] = mesh.Hint{Tenant: a.Key.Tenant, Queue: a.Key.Queue, Partition: a.Partition, Offset: a.LastOffset}
	}
	return hints
}
