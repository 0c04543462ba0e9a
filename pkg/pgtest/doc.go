// Package pgtest gives tests databases of a real PostgreSQL. A database is a clone of a template that holds the current
// schema, belongs to one test and is dropped at its end. The server is the one named by QUEEN_TEST_PG, which `make test`
// starts for the whole run; without it the first test of a package starts a throw-away one.
//
//	func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		pool := pgtest.DB(t)
//		...
//	}
//
// The template is named after the fingerprint of the SQL, so a changed schema gets a new one. Test programs that run at
// the same time race for building it: an advisory lock lets one do it, and the rename at the end of the work is what
// makes it visible, so that a builder that died half way leaves nothing that looks complete.
//
// Concurrency: everything here may be called from parallel tests. What is shared in the process (server, template,
// database of Tx) is made once, by the first that needs it, while the others wait. Main ends it; a program without Main
// leaves the server to its lifeline, which ends with the process.
package pgtest
