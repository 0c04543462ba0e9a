package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/test/internal/cell"
)

// lastLine is the number of the contract's last line.
const lastLine = 103

// entry is a line that is tested: its number in the contract, what it says in a few words, and its test.
type entry struct {
	number int
	name   string
	test   func(*line)
}

// lines are all that are tested.
var lines = slices.Concat(
	queueLines, pushLines, specialPushLines, popLines, partitionLines, groupLines, subscriptionLines, ackLines, retryLines,
	deadLetterLines, transactionLines, consumerLines, loadLines, messageLines, retentionLines,
)

// waiting are the lines that are not tested yet, each with the part of the product that brings it.
var waiting = map[int]string{
	41: "the queue listing",
	97: "traces",
}

// alone are the lines that stop everybody else on their cell, so that each has one of its own.
var alone = maintenanceLines

func TestAcceptanceAlone(t *testing.T) {
	t.Parallel()
	for _, e := range alone {
		t.Run(fmt.Sprintf("%03d %s", e.number, e.name), func(t *testing.T) {
			t.Parallel()
			s := doubleOn(t, func(o local.Options) *cell.Cell { return world.Own(t, o) }, cell.Shipped)
			e.test(&line{T: t, suite: s})
		})
	}
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *suite{"1+1": single, "2+2": double} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t).accept(t, lines)
		})
	}
}

// exact are the lines about what is stored, delivered and completed, how often, and in which order.
var exact = slices.Concat(pushLines, popLines, partitionLines, ackLines, retryLines, transactionLines)

// With what is remembered left out of account, and without news, two of each answer the same.
func TestAcceptanceOnOtherShapes(t *testing.T) {
	t.Parallel()
	for _, shape := range cell.Shapes {
		if shape.Name == cell.Shipped.Name {
			continue
		}
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			if shape.Full() {
				doubleAs(t, shape).accept(t, lines)
			} else {
				doubleAs(t, shape).accept(t, exact)
			}
		})
	}
}

// accept tests lines, all at once.
func (s *suite) accept(t *testing.T, lines []entry) {
	for _, e := range lines {
		t.Run(fmt.Sprintf("%03d %s", e.number, e.name), func(t *testing.T) {
			t.Parallel()
			l := &line{T: t, suite: s}
			l.turn.Store(uint64(e.number)) // so that not all begin at the same address
			e.test(l)
		})
	}
}

func TestEveryLineIsATestOrWaits(t *testing.T) {
	t.Parallel()
	found := map[int]int{}
	names := map[string]bool{}
	for _, e := range slices.Concat(lines, alone) {
		found[e.number]++
		if e.test == nil || e.name == "" || names[e.name] || strings.ContainsAny(e.name, "/_") {
			t.Errorf("line %d: no test, or no name of its own: %q", e.number, e.name)
		}
		names[e.name] = true
	}
	for number, feature := range waiting {
		found[number]++
		if feature == "" {
			t.Errorf("line %d waits for nothing", number)
		}
	}
	for number := 1; number <= lastLine; number++ {
		if found[number] != 1 {
			t.Errorf("line %d stands %d times among the tests and the waiting", number, found[number])
		}
		delete(found, number)
	}
	for number := range found {
		t.Errorf("there is no line %d", number)
	}
}
