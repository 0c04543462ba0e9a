package fault

import (
	"context"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/pipe"
	"queen.internal/test/chaos/internal/stand"
)

// disk fills the disk of the spools while they are needed, or before.
var disk = Fault{
	Name: "disk", Code: "F9",
	About: "both ingests lose PostgreSQL, and their spools the last byte of the disk, or the last file that it takes",
	Needs: Needs{Disk: true},
	Draw: func(d *Draw) Dose {
		s, spooling := d.Stand, d.between(200*time.Millisecond, 2*time.Second)
		pipes := toDatabase(d, names(ingests))
		dose := Dose{
			What: "no PostgreSQL for ingest, and a full disk",
			On:   append(edges(append(names(ingests), local.Postgres)), names(ingests)...),
			For:  d.between(time.Second, 10*time.Second), Busy: asked(s, names(ingests)),
			Strike: func(ctx context.Context) (bool, error) {
				outage(pipes, true)
				wait(ctx, spooling)
				return spooled(s), s.FillDisk()
			},
			Heal: func(context.Context) error {
				outage(pipes, false)
				return s.EmptyDisk()
			},
		}
		if d.IntN(4) == 0 {
			dose.What = "a disk that takes no more files, and no PostgreSQL for ingest"
			dose.Strike = func(context.Context) (bool, error) {
				err := s.FillNames()
				outage(pipes, true)
				return true, err
			}
		}
		return dose
	},
}

// outage takes PostgreSQL from processes, as if it were not there, and gives it back.
func outage(pipes []*pipe.Pipe, on bool) {
	for _, p := range pipes {
		p.Set(pipe.State{Refuse: on})
		if on {
			p.Cut(true)
		}
	}
}

// spooled says whether any spool holds records.
func spooled(s *stand.Stand) bool {
	files, err := spoolFiles(s)
	return err == nil && len(files) > 0
}
