package batch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
)

func sealed(partition string, ids ...string) appendlog.Group {
	g := group(partition, ids...)
	g.Sealed = true
	return g
}

func TestFlush_SealedAndPlainGroupsAreKeptApartAndInOrder(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		h.push(group("p", "x"))
		blocker := h.gate.next(t)
		for _, g := range []appendlog.Group{group("p", "a"), group("p", "b"), sealed("p", "c"), sealed("p", "d"), group("p", "e"), sealed("q", "f")} {
			h.push(g)
		}
		blocker.succeed()
		for _, want := range []struct {
			groups string
			sealed []bool
		}{{"q:f p:a,b", []bool{true, false}}, {"p:c,d", []bool{true}}, {"p:e", []bool{false}}} {
			c := h.gate.next(t)
			expect(t, c, want.groups)
			var marks []bool
			for _, g := range c.groups {
				marks = append(marks, g.Sealed)
			}
			if diff := cmp.Diff(want.sealed, marks); diff != "" {
				t.Errorf("%s: %s", want.groups, diff)
			}
			c.succeed()
		}
	})
}

func TestFlush_WhatMustBeSealedIsNotTriedOneByOne(t *testing.T) {
	run(t, options(1), func(t *testing.T, h *harness) {
		h.push(group("p", "x"))
		blocker := h.gate.next(t)
		first, second := h.push(group("p", "a")), h.push(group("p", "b"))
		blocker.succeed()
		c := h.gate.next(t)
		expect(t, c, "p:a,b")
		c.fail(fmt.Errorf("append: %w", appendlog.ErrMustSeal))
		for _, p := range []*pushed{first, second} {
			if p.waiting() || !errors.Is(p.results[0].Err, appendlog.ErrMustSeal) {
				t.Errorf("%+v", p.results)
			}
		}
		h.gate.none(t)
	})
}
