// Command stack runs Queen on this machine without containers: `stack up` and `stack down`, behind `make up` and
// `make down`. What it does is in package local; here are its settings and what it says.
package main

import (
	"fmt"
	"os"
)

// version is stamped by the build and handed on to the services.
var version = "dev"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}
