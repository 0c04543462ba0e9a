package cell

import (
	"flag"
	"testing"
)

// Shape is how the processes of a stack are set up, however many there are. What they answer is the same in each.
type Shape struct {
	Name string
	Env  []string
}

// Shipped is what nobody has changed.
var Shipped = Shape{Name: "as shipped"}

// Shapes are all of them: with what is remembered believed and not, and with news and without.
var Shapes = []Shape{
	Shipped,
	{"caches off", []string{"QUEEN_DEDUP_CACHE=false", "QUEEN_HOTLIST=false", "QUEEN_ACK_REGISTRY=false"}},
	{"mesh off", []string{"QUEEN_SYNC_ENABLED=false"}},
}

var full = flag.Bool("shapes.full", false, "give other shapes of a stack as much as the one that is shipped")

// Full says whether a suite goes as deep on this shape as it goes at all. Where it does not, it makes do with a part.
func (s Shape) Full() bool { return s.Name == Shipped.Name || *full }

// EachShape runs a test on every shape, all at once.
func EachShape(t *testing.T, test func(t *testing.T, s Shape)) {
	t.Helper()
	each(t, func(Shape) bool { return true }, test)
}

// EachFullShape is EachShape for what has no part that would do.
func EachFullShape(t *testing.T, test func(t *testing.T, s Shape)) {
	t.Helper()
	each(t, Shape.Full, test)
}

func each(t *testing.T, wanted func(Shape) bool, test func(t *testing.T, s Shape)) {
	t.Helper()
	for _, s := range Shapes {
		if wanted(s) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				test(t, s)
			})
		}
	}
}
