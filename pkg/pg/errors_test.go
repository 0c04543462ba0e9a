package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/queue"
	"queen.internal/sql/broker"
)

func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	type class struct {
		Kind                                          queue.Kind
		Transient, FatalAtBoot, SchemaMissing, Unsaid bool
	}
	state := func(severity, code string) error { return &pgconn.PgError{Severity: severity, Code: code} }
	for name, tc := range map[string]struct {
		err  error
		want class
	}{
		"Deadlock":            {state("ERROR", "40P01"), class{Kind: queue.KindUnavailable, Transient: true}},
		"LockTimeout":         {state("ERROR", "55P03"), class{Kind: queue.KindUnavailable, Transient: true}},
		"ReadOnly":            {state("ERROR", "25006"), class{Kind: queue.KindUnavailable, Transient: true}},
		"StatementTimeout":    {state("ERROR", "57014"), class{Kind: queue.KindUnavailable, Transient: true}},
		"Shutdown":            {state("FATAL", "57P01"), class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"StartingUp":          {state("FATAL", "57P03"), class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"CompletionUnknown":   {state("ERROR", "40003"), class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"TooManyConnections":  {state("ERROR", "53300"), class{Kind: queue.KindUnavailable, Transient: true}},
		"WrongPassword":       {state("FATAL", "28P01"), class{Kind: queue.KindUnavailable, Transient: true, FatalAtBoot: true, Unsaid: true}},
		"RefusedByHBA":        {state("FATAL", "28000"), class{Kind: queue.KindUnavailable, Transient: true, FatalAtBoot: true, Unsaid: true}},
		"NoDatabase":          {state("FATAL", "3D000"), class{Kind: queue.KindUnavailable, Transient: true, FatalAtBoot: true, Unsaid: true}},
		"NoTable":             {state("ERROR", "42P01"), class{Kind: queue.KindUnavailable, Transient: true, SchemaMissing: true}},
		"NoFunction":          {state("ERROR", "42883"), class{Kind: queue.KindUnavailable, Transient: true, SchemaMissing: true}},
		"NotGranted":          {state("ERROR", "42501"), class{Kind: queue.KindUnavailable, Transient: true, SchemaMissing: true}},
		"SyntaxError":         {state("ERROR", "42601"), class{Kind: queue.KindInternal}},
		"BadEncoding":         {state("ERROR", "22021"), class{Kind: queue.KindInvalid}},
		"DivisionByZero":      {state("ERROR", "22012"), class{Kind: queue.KindInternal}},
		"UniqueViolation":     {state("ERROR", "23505"), class{Kind: queue.KindInternal}},
		"IndexRowTooLarge":    {state("ERROR", "54000"), class{Kind: queue.KindTooLarge}},
		"OurOwnContradiction": {state("ERROR", "QU001"), class{Kind: queue.KindInternal}},
		"UnheardOf":           {state("ERROR", "ZZ999"), class{Kind: queue.KindInternal}},
		"Deadline":            {fmt.Errorf("claim: %w", context.DeadlineExceeded), class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"Reset":               {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"EOF":                 {io.ErrUnexpectedEOF, class{Kind: queue.KindUnavailable, Transient: true, Unsaid: true}},
		"StandbyRefused":      {errReadOnly, class{Kind: queue.KindUnavailable, Transient: true}},
		"PlainBug":            {errors.New("cannot encode"), class{Kind: queue.KindInternal}},
		"HasAKindAlready":     {queue.NotFound("no such queue"), class{Kind: queue.KindNotFound}},
		"Nil":                 {nil, class{Kind: queue.KindInternal}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range []error{tc.err, Wrap("do it", tc.err)} {
				got := class{Kind(err), Transient(err), FatalAtBoot(err), SchemaMissing(err), CommitUnknown(err)}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%v:\n%s", err, diff)
				}
			}
		})
	}
}

func TestWrapKeepsTheCauseFromTheClient(t *testing.T) {
	t.Parallel()
	cause := &pgconn.PgError{Severity: "ERROR", Code: "42P01", Message: `relation "queen.secret" does not exist`}
	err := Wrap("claim partitions", cause)
	var e *queue.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T has no kind", err)
	}
	if strings.Contains(e.Message, "secret") || e.RetryAfter != RetryAfter {
		t.Errorf("client reads %q, retry after %v", e.Message, e.RetryAfter)
	}
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "claim partitions: ERROR: relation") {
		t.Errorf("log reads %q", err)
	}
	if known := Wrap("ack", queue.NotFound("gone")); queue.KindOf(known) != queue.KindNotFound || known.Error() != "ack: gone" {
		t.Errorf("an error with a kind became %v (%v)", known, queue.KindOf(known))
	}
}

func TestReasonIsOneLine(t *testing.T) {
	t.Parallel()
	if got := Reason(errors.New("cannot connect:\n\t::1 refused\n\t127.0.0.1 refused")); got != "cannot connect: ::1 refused 127.0.0.1 refused" {
		t.Fatal(got)
	}
}

var (
	raised    = regexp.MustCompile(`'(QU[0-9A-Z]{3})'`)
	tabulated = regexp.MustCompile("(?m)^\\| `(QU[0-9A-Z]{3})` \\|")
)

// The states of our own class are written down three times; this keeps the three the same.
func TestOurSQLStatesAgreeInSQLGoAndReadme(t *testing.T) {
	t.Parallel()
	inSQL := map[string]bool{}
	for _, name := range broker.Names() {
		body, err := fs.ReadFile(broker.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range raised.FindAllStringSubmatch(string(body), -1) {
			inSQL[m[1]] = true
		}
		if raises, named := strings.Count(string(body), "RAISE EXCEPTION"), strings.Count(string(body), "USING ERRCODE = 'QU"); raises != named {
			t.Errorf("%s: %d RAISE EXCEPTION, %d of them with a state of class QU", name, raises, named)
		}
	}
	inGo := map[string]bool{}
	for code := range sqlstates {
		if strings.HasPrefix(code, "QU") {
			inGo[code] = true
		}
	}
	readme, err := os.ReadFile("../../sql/README.md")
	if err != nil {
		t.Fatal(err)
	}
	inReadme := map[string]bool{}
	for _, m := range tabulated.FindAllStringSubmatch(string(readme), -1) {
		inReadme[m[1]] = true
	}
	if diff := cmp.Diff(inSQL, inGo); diff != "" {
		t.Errorf("raised by procedures (-), in the table of Go (+):\n%s", diff)
	}
	if diff := cmp.Diff(inGo, inReadme); diff != "" {
		t.Errorf("in the table of Go (-), in sql/README.md (+):\n%s", diff)
	}
}

func TestSQLStatesAreWellFormed(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9A-Z]{2}([0-9A-Z]{3})?$`)
	for code, v := range sqlstates {
		if !form.MatchString(code) {
			t.Errorf("%q is no SQLSTATE and no class", code)
		}
		if v.flush && !v.drop || v.drop && !v.transient || v.missing && !v.transient {
			t.Errorf("%s: %+v contradicts itself", code, v)
		}
	}
}
