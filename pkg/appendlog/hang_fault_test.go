package appendlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/testkit"
)

// The network to the database hangs and nothing says so.

// Everything that waits is told within the deadlines, whatever it waits for, and with the network back the same pool
// serves again. goleak sees that nothing is left of it.
func TestAppendsOnAHungNetworkFailInTimeAndThePoolRecovers(t *testing.T) {
	t.Parallel()
	f := farLog(t, 3600)
	sent := f.proxy.Count(appendCall)
	f.proxy.Stall()
	var waiting sync.WaitGroup
	for i := range 8 { // four times what the pool has connections
		waiting.Go(func() {
			r := f.log.Append(t.Context(), []appendlog.Group{group("a", fmt.Sprint(i))})[0]
			if kind := queue.KindOf(r.Err); kind != queue.KindUnavailable && kind != queue.KindUnknown {
				t.Errorf("append %d: %v", i, r.Err)
			}
		})
	}
	waiting.Wait() // the network still hangs: only deadlines can have ended them
	if n := f.proxy.Count(appendCall) - sent; n > 4 {
		t.Errorf("%d calls sent over two connections, each with one repetition", n)
	}
	f.proxy.Resume()
	// What a client does with a 503; the connections that hung are being cleared away meanwhile.
	for {
		r := f.log.Append(t.Context(), []appendlog.Group{group("a", "after")})[0]
		if r.Err == nil {
			break
		}
		if queue.KindOf(r.Err) != queue.KindUnavailable || t.Context().Err() != nil {
			t.Fatal(r.Err)
		}
	}
	seen := map[string]int{}
	for _, transaction := range stored(t, f.pool, "a") {
		if seen[transaction]++; seen[transaction] > 1 {
			t.Errorf("%s is stored twice", transaction)
		}
	}
	if seen["after"] != 1 {
		t.Error("what was answered is not stored")
	}
	wantSoundLog(t, f.pool)
}

// A caller that gives up while its statement is on the way must not leave a connection whose next answer is the old one.
func TestACancelledAppendDoesNotPoisonItsConnection(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]testkit.Action{"Statement": testkit.HoldStatement, "Answer": testkit.HoldAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := farLog(t, 3600)
			held := f.proxy.Next(action, appendCall)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan appendlog.Result, 1)
			go func() { done <- f.log.Append(ctx, []appendlog.Group{group("a", "x")})[0] }()
			held.Await(t)
			cancel()
			if r := <-done; queue.KindOf(r.Err) != queue.KindUnknown || !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%v", r.Err)
			}
			r := mustAppend(t, f.log, group("a", "y"), group("b", "1"))
			if len(r[0].Outcomes) != 1 || r[0].Outcomes[0].Duplicate || r[1].Outcomes[0].Duplicate {
				t.Errorf("%+v", r)
			}
			held.Release()
			held.Answer(t)
			if r := mustAppend(t, f.log, group("a", "x", "y"))[0]; !r.Outcomes[0].Duplicate || !r.Outcomes[1].Duplicate {
				t.Errorf("%+v", r)
			}
			wantSoundLog(t, f.pool)
		})
	}
}
