package room

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"queen.internal/pkg/queue"
)

func TestTake_WaitsForRoomAndNotForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(10, time.Second)
		first, err := r.Take(t.Context(), 8)
		if err != nil || first != 8 {
			t.Fatal(first, err)
		}
		begun := time.Now()
		if _, err := r.Take(t.Context(), 3); queue.KindOf(err) != queue.KindOverloaded || time.Since(begun) != time.Second {
			t.Errorf("refused with %v after %s", err, time.Since(begun))
		}
		cause := errors.New("the client is gone")
		gone, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(cause) })
		if _, err := r.Take(gone, 3); !errors.Is(err, cause) {
			t.Errorf("a client that left ends with %v", err)
		}
		time.AfterFunc(time.Millisecond, func() { r.Leave(first) })
		if all, err := r.Take(t.Context(), 1000); err != nil || all != 10 {
			t.Errorf("took %d, %v, want all there is", all, err)
		}
	})
}

func TestTake_WithoutPatience(t *testing.T) {
	t.Parallel()
	r := New(10, 0)
	if _, err := r.Take(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Take(t.Context(), 1); queue.KindOf(err) != queue.KindOverloaded {
		t.Errorf("ends with %v", err)
	}
}

func TestBody_TakesWhatArrivesAndGivesItBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size   int64
		length int
		known  bool
		taken  int64
	}{
		"short":                 {1 << 20, 100, true, 101},
		"short, of any length":  {1 << 20, 100, false, step},
		"long":                  {1 << 20, 3*step + 5, true, 4 * step},
		"longer than all there": {step + 10, 3 * step, true, step + 10},
		"empty":                 {1 << 20, 0, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(test.size, 0)
			sent, length := strings.Repeat("x", test.length), int64(-1)
			if test.known {
				length = int64(test.length)
			}
			body, leave := r.Body(t.Context(), io.NopCloser(strings.NewReader(sent)), length)
			got, err := io.ReadAll(body)
			if err != nil || string(got) != sent {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
			if free := test.size - test.taken; !r.bytes.TryAcquire(free) || r.bytes.TryAcquire(1) {
				t.Errorf("not exactly %d bytes are free", free)
			}
			leave()
			if !r.bytes.TryAcquire(test.taken) {
				t.Error("it did not give back what it took")
			}
		})
	}
}

func TestBody_WithoutRoomEndsInTheKindOfTheRefusal(t *testing.T) {
	t.Parallel()
	r := New(step+1, 0)
	body, leave := r.Body(t.Context(), io.NopCloser(strings.NewReader(strings.Repeat("x", 2*step))), -1)
	if _, err := r.Take(t.Context(), 2); err != nil { // nothing is taken before something is read
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body); queue.KindOf(err) != queue.KindOverloaded {
		t.Errorf("ends with %v", err)
	}
	leave()
	if !r.bytes.TryAcquire(step - 1) {
		t.Error("what was refused has kept some")
	}
}
