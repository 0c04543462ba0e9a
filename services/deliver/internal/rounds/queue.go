package rounds

import (
	"container/list"

	"github.com/google/uuid"
)

// queue is the waiting calls of one class. The tenants take turns.
type queue[T any] struct {
	tenants map[uuid.UUID]*tenant
	turns   list.List // of *tenant that have something waiting; the front one is next
	waiting int       // calls of all tenants
}

type tenant struct {
	id      uuid.UUID
	waiting list.List // of *waiter[T], in order of arrival
	turn    *list.Element
}

func (q *queue[T]) push(w *waiter[T]) {
	t := q.tenants[w.tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = make(map[uuid.UUID]*tenant)
		}
		t = &tenant{id: w.tenant}
		t.turn = q.turns.PushBack(t)
		q.tenants[w.tenant] = t
	}
	w.place = t.waiting.PushBack(w)
	q.waiting++
}

// remove takes out a call that waits.
func (q *queue[T]) remove(w *waiter[T]) {
	t := q.tenants[w.tenant]
	t.waiting.Remove(w.place)
	w.place = nil
	q.waiting--
	if t.waiting.Len() == 0 {
		q.turns.Remove(t.turn)
		delete(q.tenants, t.id)
	}
}

// front is the call whose turn it is, or nil.
func (q *queue[T]) front() *waiter[T] {
	if q.turns.Len() == 0 {
		return nil
	}
	return q.turns.Front().Value.(*tenant).waiting.Front().Value.(*waiter[T])
}

// take removes the call whose turn it is, and passes the turn on.
func (q *queue[T]) take() *waiter[T] {
	w := q.front()
	q.turns.MoveToBack(q.tenants[w.tenant].turn)
	q.remove(w)
	return w
}
