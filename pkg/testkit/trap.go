package testkit

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is a safety net for what must happen, far above what a loaded machine needs; it is no measure of it.
const patience = 30 * time.Second

// Action is what a Trap does to its exchange.
type Action int

// The actions. A statement that is held or delayed has not reached the server.
const (
	CutStatement   Action = iota // cut the connection instead of forwarding it
	HoldStatement                // forward it when released
	DelayStatement               // forward it after Trap.Pause
	DropAnswer                   // forward it, read the server's whole answer, then cut the client
	HoldAnswer                   // forward it, read the server's whole answer, and pass that on when released
	HoldEnd                      // forward it without its last message, which follows when released: a client frozen in a write
)

// Trap waits for one exchange. Make it with Proxy.Next or Proxy.Nth.
type Trap struct {
	action   Action
	text     string
	left     int // matching exchanges until it is this one's turn; guarded by the proxy
	pause    time.Duration
	sprung   chan struct{} // closed when the exchange is cut, dropped, held or on its way
	released chan struct{} // closed by Release
	once     sync.Once
	answered chan struct{} // closed when the server's answer is complete
	answer   Answer        // written before answered is closed
}

func newTrap(action Action, n int, text string) *Trap {
	return &Trap{
		action: action, text: text, left: n,
		sprung: make(chan struct{}), released: make(chan struct{}), answered: make(chan struct{}),
	}
}

// Await returns when the trap has done its work: the connection is cut, the answer dropped, or one of them held.
func (tr *Trap) Await(t testing.TB) {
	t.Helper()
	await(t, tr.sprung, "no statement with "+tr.text+" came into the trap")
}

// Answer waits until the server has answered the trapped exchange, whoever got to see that, and returns its end.
func (tr *Trap) Answer(t testing.TB) Answer {
	t.Helper()
	await(t, tr.answered, "the server did not answer the trapped "+tr.text)
	return tr.answer
}

// Release lets what is held, or will be, go on.
func (tr *Trap) Release() { tr.once.Do(func() { close(tr.released) }) }

// matches says whether an exchange with these statements is the trap's business.
func (tr *Trap) matches(sql []string) bool { return contains(sql, tr.text) > 0 }

// contains counts the texts with part in them.
func contains(texts []string, part string) (n int) {
	for _, text := range texts {
		if strings.Contains(text, part) {
			n++
		}
	}
	return n
}

func await(t testing.TB, event <-chan struct{}, otherwise string) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-event:
	case <-limit.C:
		t.Fatal(otherwise)
	}
}
