package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/stand"
)

// torn edits spools of an ingest that was killed: what a write that was not answered may leave, and what a careless hand
// does. Nothing of it may cost a message that was answered. (Damage that does is tortured exhaustively by the tests of the
// spool.)
var torn = Fault{
	Name: "torn", Code: "F11",
	About: "ingest is killed while it spools; its last file gets a torn tail, or two files are swapped, or one doubled",
	Draw: func(d *Draw) Dose {
		s, victim := d.Stand, pick(d, ingests...)
		pipes := toDatabase(d, names(ingests))
		spooling, lot := d.between(500*time.Millisecond, 2*time.Second), rand.New(rand.NewPCG(d.Uint64(), 11))
		return Dose{
			What: "kill -9 " + victim.Name() + " while it spools, and edit its files",
			On:   append(edges(append(names(ingests), local.Postgres)), names(ingests)...),
			For:  d.between(0, 2*time.Second), Busy: asked(s, names(ingests)),
			Strike: func(ctx context.Context) (bool, error) {
				outage(pipes, true)
				wait(ctx, spooling)
				if err := s.Kill(victim); err != nil {
					return false, err
				}
				return edit(s, victim, lot)
			},
			Heal: func(context.Context) error {
				outage(pipes, false)
				return s.Launch(victim)
			},
		}
	},
}

// spoolFiles are the files with records, oldest first within a spool.
func spoolFiles(s *stand.Stand) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.Spool, "*", "*.spool"))
	if err != nil {
		return nil, fmt.Errorf("list the spools: %w", err)
	}
	slices.Sort(files)
	return files, nil
}

// edit changes the files of a dead process's last spool; false when there is none.
func edit(s *stand.Stand, victim stand.Process, lot *rand.Rand) (bool, error) {
	files, err := filepath.Glob(filepath.Join(s.Spool, fmt.Sprintf("%s-%d.*", victim.Service, victim.Number), "*.spool"))
	if err != nil || len(files) == 0 {
		return false, err
	}
	slices.Sort(files)
	last := files[len(files)-1]
	var siblings []string // of the same spool
	for _, f := range files {
		if filepath.Dir(f) == filepath.Dir(last) {
			siblings = append(siblings, f)
		}
	}
	switch choice := lot.IntN(4); {
	case choice == 0 && len(siblings) > 1:
		first := siblings[0]
		return true, errors.Join(os.Rename(first, first+".swap"), os.Rename(last, first), os.Rename(first+".swap", last))
	case choice == 1:
		data, err := os.ReadFile(siblings[0])
		return true, errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(last), "9999999999.spool"), data, 0o600))
	default:
		return true, tear(last, lot)
	}
}

// tear adds the beginning of a record that was never finished: bytes that look like what is there.
func tear(path string, lot *rand.Rand) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("tear a spool: %w", err)
	}
	from := lot.IntN(len(data) + 1)
	tail := data[from:min(len(data), from+1+lot.IntN(300))]
	if lot.IntN(2) == 0 {
		tail = make([]byte, 1+lot.IntN(300))
		for i := range tail {
			tail[i] = byte(lot.Uint32())
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("tear a spool: %w", err)
	}
	_, err = file.Write(tail)
	return errors.Join(err, file.Close())
}
