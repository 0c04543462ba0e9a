package testkit_test

import (
	"testing"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

func TestBrakeStopsOneSessionOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `CREATE TABLE notes (n int)`); err != nil {
		t.Fatal(err)
	}
	slow, free := testkit.Pool(t, db.Config, "slow", 1), testkit.Pool(t, db.Config, "free", 1)
	release := testkit.Brake(t, db.Pool, "slow", "BEFORE INSERT", "notes")
	done := make(chan error, 1)
	go func() {
		_, err := slow.Exec(t.Context(), insert, 1)
		done <- err
	}()
	testkit.AwaitBlocked(t, db.Pool, "slow")
	if _, err := free.Exec(t.Context(), insert, 2); err != nil {
		t.Error(err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	free.Close()
	testkit.AwaitGone(t, db.Pool, "free")
	if n := testkit.Deadlocks(t, db.Pool); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

func TestStopCallsStopsACallAfterItsSnapshot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `CREATE FUNCTION queen.queues_seen(p_more bigint DEFAULT 0) RETURNS TABLE (inside bigint)
		LANGUAGE plpgsql VOLATILE AS $$
		DECLARE
			v_nothing int;
BEGIN
		RETURN QUERY SELECT count(*) + queues_seen.p_more FROM queen.queues;
END $$`); err != nil {
		t.Fatal(err)
	}
	late := testkit.Pool(t, db.Config, "late", 1)
	hold := testkit.StopCalls(t, db.Pool, "late", "queues_seen")
	release := hold()
	var outside, inside int
	done := make(chan error, 1)
	go func() {
		done <- late.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM queen.queues), inside FROM queen.queues_seen()`).Scan(&outside, &inside)
	}()
	testkit.AwaitBlocked(t, db.Pool, "late")
	if _, err := db.Pool.Exec(t.Context(), `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES (gen_random_uuid(), 'q', '', '')`); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-done; err != nil || outside != 0 || inside != 1 {
		t.Errorf("the call's own snapshot has %d queues, the function's %d, %v", outside, inside, err)
	}
}
