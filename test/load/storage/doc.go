// Storage measures the choices of the storage layout against each other: how a segment's payload is compressed and
// where PostgreSQL keeps it, how many messages share a row, how an offset is allocated, and how a partition is locked.
// It starts a private server with the settings of the native stack, or uses the one named by -dsn, and works in a schema
// of its own that it drops at the end.
//
// Within a set, the choices take turns round by round, and each round's figures are compared with the same round's first
// choice: on a machine whose speed drifts, only such ratios mean something. The medians are printed as a table for
// docs/adr.
//
//	go run ./load/storage -rounds 5 -seconds 2
package main
