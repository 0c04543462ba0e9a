package queue_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"queen.internal/pkg/queue"
)

func TestCheckNameSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                        "",
		"orders.created":          "",
		"a/b%c+d e":               "",
		"früh 早い 🐝":               "",
		strings.Repeat("x", 2048): "",
		strings.Repeat("x", 2049): "queue is 2049 bytes long, at most 2048 are allowed",
		"tab\there":               "queue contains a control character",
		"nul\x00":                 "queue contains a control character",
		"del\x7f":                 "queue contains a control character",
		"broken \xff":             "queue is not valid UTF-8",
	} {
		err := queue.CheckName("queue", name)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || queue.KindOf(err) != queue.KindInvalid) {
			t.Errorf("%.20q: %v, want %q", name, err, want)
		}
	}
	if err := queue.CheckTransactionID("transactionId", strings.Repeat("x", 65535)); err != nil {
		t.Error(err)
	}
	if err := queue.CheckTransactionID("transactionId", strings.Repeat("x", 65536)); err == nil {
		t.Error("an over-long transaction id passes")
	}
}

func TestErrorsKeepTheirKindThroughWrapping(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("append: %w", queue.Unavailable("the database is not available", 0, io.ErrUnexpectedEOF))
	if queue.KindOf(err) != queue.KindUnavailable || !errors.Is(err, &queue.Error{Kind: queue.KindUnavailable}) {
		t.Errorf("kind of %v is %v", err, queue.KindOf(err))
	}
	if errors.Is(err, &queue.Error{Kind: queue.KindInvalid}) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v compares wrongly", err)
	}
	if queue.KindOf(io.EOF) != queue.KindInternal {
		t.Error("an error without a kind is not internal")
	}
}

func TestTransactionHashIsXXH3(t *testing.T) {
	t.Parallel()
	// Published test vector of xxh3-128 with seed 0 for the empty input.
	if got := queue.TransactionHash("").String(); got != "99aa06d3-0147-98d8-6001-c324468d497f" {
		t.Errorf("hash of the empty text: %s", got)
	}
	if queue.TransactionHash("a") == queue.TransactionHash("b") {
		t.Error("two texts, one hash")
	}
}
