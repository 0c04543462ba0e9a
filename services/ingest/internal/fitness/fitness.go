// Package fitness says whether ingest can take pushes, to its balancer and to what stands before the append log. It asks and
// keeps nothing. What it says may be told to anybody.
package fitness

import (
	"context"
	"errors"
	"fmt"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/modes"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
	"queen.internal/services/ingest/internal/httpapi"
	"queen.internal/services/ingest/internal/lanes"
	"queen.internal/services/ingest/internal/outage"
	"queen.internal/services/ingest/internal/sealing"
)

// Appends says why a push cannot go to a database that answers.
func Appends(keeper *schema.Keeper, switches *modes.Keeper) error {
	if err := keeper.Ready(); err != nil {
		return err
	}
	if !switches.Known(mesh.PushMaintenance) {
		return queue.Unavailable("whether push maintenance is on is not known yet", pg.RetryAfter, nil)
	}
	return nil
}

// Informed is push by a process that may have just started: it learns whether push maintenance is on before the first push
// goes anywhere. While the database is away a push does not wait for that, since it is spooled; and when there is no
// telling, it is told that it cannot be taken yet.
func Informed(push sealing.Push, keeper *schema.Keeper, switches *modes.Keeper, guard *outage.Guard) sealing.Push {
	return func(ctx context.Context, groups []appendlog.Group) ([]appendlog.Result, error) {
		if !switches.Known(mesh.PushMaintenance) && keeper.Ready() == nil && !guard.Down() {
			_ = switches.Await(ctx, mesh.PushMaintenance) // see above
		}
		return push(ctx, groups)
	}
}

// Pushes keeps ingest in its balancer as long as a push can be stored, if only on the disk. appends is why it cannot go to
// a database that answers.
func Pushes(ctx context.Context, connections *lanes.Lanes, guard *outage.Guard, appends func() error) error {
	if guard.Held() {
		return public(guard.Room())
	}
	err := connections.Ping(ctx)
	if err == nil {
		return public(appends())
	}
	if guard.Room() == nil {
		return nil
	}
	return fmt.Errorf("PostgreSQL: %w, and the spool has no room", public(err))
}

// public is err without what only the log may tell.
func public(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(httpapi.Reason(err))
}
