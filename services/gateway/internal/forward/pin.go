package forward

import (
	"context"
	"sync/atomic"
)

// Pin remembers where the sticky requests of one client connection go. A nil Pin remembers nothing.
type Pin struct {
	at atomic.Pointer[address]
}

func (p *Pin) get() *address {
	if p == nil {
		return nil
	}
	return p.at.Load()
}

func (p *Pin) set(a *address) {
	if p != nil {
		p.at.Store(a)
	}
}

type pinKey struct{}

// WithPin gives a client connection's context a Pin. Its use is in http.Server.ConnContext.
func WithPin(ctx context.Context) context.Context {
	return context.WithValue(ctx, pinKey{}, new(Pin))
}

func pinOf(ctx context.Context) *Pin {
	p, _ := ctx.Value(pinKey{}).(*Pin)
	return p
}
