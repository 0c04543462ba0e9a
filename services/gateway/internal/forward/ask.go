package forward

import (
	"context"
	"slices"
	"strings"
	"sync"

	"queen.internal/pkg/route"
)

// Said is what one address answered.
type Said struct {
	Address string
	Status  int
	Body    []byte
	Err     error // there was no answer
}

// AskAll sends a GET to every address of role that may be alive and returns their answers, by address. authorization is
// passed on; empty means none. It takes as long as a probe may.
func (f *Forwarder) AskAll(ctx context.Context, role route.Role, path, authorization string) []Said {
	u := f.upstreams[role]
	if u == nil {
		return nil
	}
	var said []Said
	for _, a := range u.all() {
		if a.current() != down {
			said = append(said, Said{Address: a.name})
		}
	}
	slices.SortFunc(said, func(a, b Said) int { return strings.Compare(a.Address, b.Address) })
	var asking sync.WaitGroup
	for i := range said {
		asking.Go(func() {
			s := &said[i]
			s.Status, _, s.Err = u.get(ctx, s.Address, path, authorization, &s.Body)
		})
	}
	asking.Wait()
	return said
}

// get is ask with a credential, by the address's name.
func (u *upstream) get(ctx context.Context, name, path, authorization string, body *[]byte) (status int, connected bool, err error) {
	head := ""
	if authorization != "" {
		head = "Authorization: " + authorization + "\r\n"
	}
	return u.request(ctx, name, "GET "+path, head, body)
}
