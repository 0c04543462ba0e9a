package state_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/state"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

func TestTheHigherVersionWins(t *testing.T) {
	t.Parallel()
	store := state.New(pgtest.DB(t))
	for _, step := range []struct {
		name          string
		offered, want state.Switch
	}{
		{"the first", state.Switch{On: true, Version: 10}, state.Switch{On: true, Version: 10}},
		{"again", state.Switch{On: true, Version: 10}, state.Switch{On: true, Version: 10}},
		{"an older one", state.Switch{On: false, Version: 9}, state.Switch{On: true, Version: 10}},
		{"another one of the same version", state.Switch{On: false, Version: 10}, state.Switch{On: true, Version: 10}},
		{"a newer one", state.Switch{On: false, Version: 11}, state.Switch{On: false, Version: 11}},
	} {
		if got, err := store.Offer(t.Context(), "a", step.offered); err != nil || got != step.want {
			t.Errorf("%s: %+v %v", step.name, got, err)
		}
	}
	if _, err := store.Offer(t.Context(), "b", state.Switch{On: true, Version: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := store.Switches(t.Context(), []string{"a", "b", "never set"})
	if want := map[string]state.Switch{"a": {Version: 11}, "b": {On: true, Version: 1}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

func TestOffersAtOnceAgree(t *testing.T) {
	t.Parallel()
	store := state.New(pgtest.DB(t))
	var offers sync.WaitGroup
	for version := range int64(20) {
		offers.Go(func() {
			got, err := store.Offer(t.Context(), "a", state.Switch{On: version%2 == 1, Version: version + 1})
			if err != nil || got.Version < version+1 || got.On != (got.Version%2 == 0) {
				t.Errorf("%d: %+v %v", version, got, err)
			}
		})
	}
	offers.Wait()
	if got, err := store.Switches(t.Context(), []string{"a"}); err != nil || got["a"] != (state.Switch{On: true, Version: 20}) {
		t.Errorf("%v %v", got, err)
	}
}

// Rows may be written by people, and by what wrote them before us.
func TestRowsOfOthers(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	store := state.New(pool)
	if _, err := pool.Exec(t.Context(), `INSERT INTO queen.system_state (key, value) VALUES
		('on', '{"enabled":true}'), ('off', '{"enabled":false}'), ('text', '"true"'), ('odd', '{"enabled":"yes"}'), ('none', '{}')`); err != nil {
		t.Fatal(err)
	}
	got, err := store.Switches(t.Context(), []string{"on", "off", "text", "odd", "none"})
	if want := map[string]state.Switch{"on": {On: true}, "off": {}, "text": {}, "odd": {}, "none": {}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
}
