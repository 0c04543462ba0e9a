package fault

import (
	"context"
	"errors"
	"sync"
	"time"

	"queen.internal/test/chaos/internal/stand"
)

const (
	// leap is how far the clock goes.
	leap = 300 * time.Second

	// settling is longer than any lease of the workloads. What is promised of leases holds for leaps that are as far apart.
	settling = 6 * time.Second
)

// swing moves the database's clock there and back.
var swing = Fault{
	Name: "swing", Code: "F12",
	About: "the database's clock swings by 2 s, once a second; 10 to 60 s, then right again",
	Needs: Needs{Clock: true},
	Draw: func(d *Draw) Dose {
		s := d.Stand
		swinging, stop := context.WithCancel(context.Background()) // until it is healed
		var pendulum sync.WaitGroup
		var failed error
		return Dose{
			What: "the database's clock swings by 2 s", On: []string{"clock"}, For: d.between(3*time.Second, time.Minute), Busy: querying(s),
			Strike: func(ctx context.Context) (bool, error) {
				met, err := leased(ctx, s)
				pendulum.Go(func() { failed = swingUntil(swinging, s) })
				return met, err
			},
			Heal: func(context.Context) error {
				stop()
				pendulum.Wait()
				return errors.Join(failed, s.SetClock(0))
			},
		}
	},
}

// clock moves the database's clock far.
var clock = Fault{
	Name: "clock", Code: "F12",
	About: "the database's clock leaps 300 s ahead or back; 10 to 60 s, then right again",
	Needs: Needs{Clock: true},
	Draw: func(d *Draw) Dose {
		s, by := d.Stand, pick(d, leap, -leap)
		return Dose{
			What: "the database's clock leaps by " + by.String(), On: []string{"clock"}, For: d.between(3*time.Second, time.Minute), Busy: querying(s),
			Strike: func(ctx context.Context) (bool, error) {
				met, err := leased(ctx, s)
				return met, errors.Join(err, s.SetClock(by))
			},
			Heal: func(ctx context.Context) error {
				err := s.SetClock(0)
				wait(ctx, settling)
				return err
			},
		}
	},
}

// swingUntil goes there and back until the context is over.
func swingUntil(ctx context.Context, s *stand.Stand) error {
	for offset := 2 * time.Second; ctx.Err() == nil; offset = -offset {
		if err := s.SetClock(offset); err != nil {
			return err
		}
		wait(ctx, time.Second)
	}
	return nil
}

// leased says whether anything is under a lease, waiting a while until something is. A database that is gone has none
// to show, and leases all the same.
func leased(ctx context.Context, s *stand.Stand) (is bool, err error) {
	for begun := time.Now(); !is && time.Since(begun) < patience && ctx.Err() == nil; wait(ctx, 10*time.Millisecond) {
		err = s.DB().QueryRow(ctx, `SELECT EXISTS (SELECT FROM queen.cursors WHERE lease_expires_at > clock_timestamp())`).Scan(&is)
	}
	if is {
		err = nil
	}
	return is, err
}
