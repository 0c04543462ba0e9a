package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// CheckLeaks fails the package when goroutines are left after the tests. Pass it to Main.
func CheckLeaks() error { return goleak.Find() }

// Main runs the tests of a package, ends what this package started, makes the checks if all is well so far, and exits.
// Call it from TestMain.
func Main(m *testing.M, checks ...func() error) {
	code := m.Run()
	err := shutDown()
	for _, check := range checks {
		if err == nil && code == 0 {
			err = check()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shutDown runs after all tests, so nothing uses the shared parts any more.
func shutDown() error {
	if !sharedUsed {
		return nil
	}
	h, err := shared()
	if err != nil {
		return nil // every test that needed it has failed with this error
	}
	ctx, cancel := context.WithTimeout(context.Background(), workLimit)
	defer cancel()
	var errs []error
	if rollback.pool != nil {
		rollback.pool.Close()
		if h.own == nil {
			errs = append(errs, h.execute(ctx, `DROP DATABASE IF EXISTS `+quote(rollback.name)+` WITH (FORCE)`))
		}
	}
	if h.own != nil {
		errs = append(errs, h.own.Stop(ctx))
	}
	return errors.Join(errs...)
}
