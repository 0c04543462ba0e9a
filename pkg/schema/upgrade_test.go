package schema_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/schema"
)

// before is the broker's tables as they were before the schema file first came to them. Its procedures are not wanted:
// today's would not fit.
func before(version int, first string) schema.Corpus {
	c := schema.Broker()
	c.Version, c.Hash = version, strings.Repeat("0", 64)
	c.Names = slices.DeleteFunc(slices.Clone(c.Names), func(name string) bool { return !strings.HasPrefix(name, "schema/") || name >= first })
	return c
}

func TestQueueOptionsReachADatabaseThatHasQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t).Pool
	apply(t, before(1, "schema/080_queue_options.sql"), pool)
	exec(t, pool, `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES (gen_random_uuid(), 'old', '', '')`)
	apply(t, schema.Broker(), pool)
	if diff := cmp.Diff(catalog(t, pgtest.DB(t)), catalog(t, pool)); diff != "" {
		t.Errorf("not what a fresh installation has:\n%s", diff)
	}
	const kept = `SELECT concat_ws(' ', lease_seconds, retry_delay_ms, ttl_seconds, delivery_limit, retention_enabled, retention_sink_hold_max_seconds)
		FROM queen.queues WHERE name = 'old'`
	if got := value[string](t, pool, kept); got != "60 1000 3600 0 f 604800" {
		t.Errorf("the old queue has %s", got)
	}
}

// Reads and appends under way keep their table locks to the end of their transactions.
func TestReinstallingTheSameTablesGetsByWithTrafficUnderWay(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	traffic, err := pool.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := traffic.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	const tables = `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
		WHERE schemaname = 'queen' AND tablename <> 'schema_version'`
	if _, err := traffic.Exec(bounded(t), `LOCK TABLE `+value[string](t, pool, tables)+` IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	c := schema.Broker()
	c.Hash = strings.Repeat("0", 64)
	log := &records{}
	if err := c.Apply(bounded(t), pool, slog.New(log)); err != nil || log.contain("gives way") {
		t.Errorf("%v, logged %q", err, log.list)
	}
}
