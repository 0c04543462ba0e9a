// Package judge looks at what a run has left behind and says what no correct Queen can have done. What clients were
// answered is judged by test/history; here is the rest: payloads, dead letters, cursors while the run was under way, what is
// left of memory and connections afterwards, and whether everything came back by itself.
//
// A finding makes a run INVALID. What makes one UNKNOWN is that it has shown too little; that is the campaign's to say.
//
// # Concurrency
//
// A Watch has one goroutine, which Stop waits for. Everything else runs in its caller's, after the load.
package judge
