package wire_test

import (
	"errors"
	"testing"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
)

func TestListQuery(t *testing.T) {
	t.Parallel()
	q := wire.ParseListQuery("n=7&empty=&name=a%2Fb+c&name=second&t=2026-01-02T03:04:05%2B02:00&w=new")
	if n := q.Int("n", 1, 0, 10); n != 7 {
		t.Errorf("n is %d", n)
	}
	if n := q.Int("empty", 3, 0, 10) + q.Int("absent", 4, 0, 10); n != 7 {
		t.Errorf("defaults add up to %d", n)
	}
	if name := q.Name("name"); name != "a/b c" {
		t.Errorf("name is %q", name)
	}
	if got, want := q.Time("t"), time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC); !got.Equal(want) || !q.Time("absent").IsZero() {
		t.Errorf("time is %v", got)
	}
	if w := q.Word("w", "old", "new") + q.Word("absent", "old"); w != "new" {
		t.Errorf("word is %q", w)
	}
	if err := q.Err(); err != nil {
		t.Errorf("%v", err)
	}
}

func TestListQuery_NamesTheFirstFault(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		"n=1.5": "n", "n=-1": "n", "n=11": "n", "n=99999999999999999999": "n", "t=now": "t", "w=New": "w", "name=%0a": "name", "x=%": "query",
		"n=x&w=y": "n",
	} {
		q := wire.ParseListQuery(raw)
		if n := q.Int("n", 3, 0, 10); n != 3 && q.Err() == nil {
			t.Errorf("%s: n is %d", raw, n)
		}
		q.Time("t")
		q.Word("w", "old", "new")
		q.Name("name")
		var fault *queue.Error
		if !errors.As(q.Err(), &fault) || fault.Kind != queue.KindInvalid || fault.Field != field {
			t.Errorf("%s: %v, want the field %s", raw, q.Err(), field)
		}
	}
}
