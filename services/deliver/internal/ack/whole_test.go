package ack

import (
	"strings"
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/lease"
)

func TestWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		span, items string // ids of the messages; of items with a suffix: `-` failed, and `_` has no id
		want        bool
	}{
		"All":                         {"a b c", "a b c", true},
		"TheLastCompletesThoseBelow":  {"a b c", "c", true},
		"AnyOrder":                    {"a b c", "c a b", true},
		"OneTwice":                    {"a b c", "a a c c b", true},
		"OneMessage":                  {"a", "a", true},
		"NotTheLast":                  {"a b c", "a b", false},
		"OneFailed":                   {"a b c", "a b- c", false},
		"OneThatIsNotInIt":            {"a b c", "a x c", false},
		"OneWithoutAnID":              {"a b c", "a _ c", false},
		"TheLastIDStandsBefore":       {"a c b c", "a c b c", false}, // the first of the two is meant: b and the last are left
		"AnIDThatStandsTwiceIsBefore": {"a a b", "a b", true},
	} {
		var span lease.Span
		for _, id := range strings.Fields(tc.span) {
			span.Hashes = append(span.Hashes, queue.TransactionHash(id))
		}
		var items []group.AckItem
		for _, text := range strings.Fields(tc.items) {
			id, failed := strings.CutSuffix(text, "-")
			hash := queue.TransactionHash(id)
			item := group.AckItem{Hash: &hash}
			if failed {
				item.Signal = group.Failed
			}
			if id == "_" {
				item.Hash = nil
			}
			items = append(items, item)
		}
		if got := whole(&span, items); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
