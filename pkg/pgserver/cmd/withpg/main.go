// Command withpg runs another command against a throw-away PostgreSQL: it starts a server, names it in QUEEN_TEST_PG,
// runs the command, removes the server and ends with the command's exit code. `make test` runs all tests through it, so
// that they share one server.
//
//	withpg [--] go test work
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
)

func main() {
	code, err := run(context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil)), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
	}
	os.Exit(code)
}
