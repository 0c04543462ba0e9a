// Package broker carries the SQL of the broker's database: tables in schema/, functions in procedures/. It says which
// version that text is and what its fingerprint is; pkg/schema installs it.
package broker

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
)

// Version orders releases of the SQL. It grows by one with the first change after a release: a database that a higher
// version was installed in is never overwritten by a lower one. Within one version the fingerprint decides.
const Version = 2

// Files holds schema/*.sql and procedures/*.sql; Names says in which order they are installed.
//
//go:embed schema/*.sql procedures/*.sql
var Files embed.FS

// Hash is the fingerprint of Files: hexadecimal SHA-256 over names and contents. Equal hashes mean equal SQL.
func Hash() string {
	h := sha256.New()
	for _, name := range Names() {
		body, err := fs.ReadFile(Files, name)
		if err != nil {
			panic(err) // the name comes from the same embedded tree
		}
		// Lengths keep a name and its content apart, so that no two trees share an input.
		fmt.Fprintf(h, "%d:%s%d:", len(name), name, len(body))
		h.Write(body)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Names lists Files in the order of installation: tables before the functions that use them, each directory by name.
func Names() []string {
	var names []string
	for _, dir := range []string{"schema", "procedures"} {
		found, err := fs.Glob(Files, dir+"/*.sql")
		if err != nil {
			panic(err) // the pattern is a constant
		}
		slices.Sort(found)
		names = append(names, found...)
	}
	return names
}
