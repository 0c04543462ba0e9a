package pgserver

import (
	"maps"
	"slices"
)

// DurableSettings are what a server with data worth keeping runs with, beside PostgreSQL's own defaults. They are
// printed in the operations document; change both together.
func DurableSettings() map[string]string {
	return map[string]string{
		"fsync":                   "on",
		"synchronous_commit":      "on",
		"full_page_writes":        "on",
		"max_connections":         "150",   // two copies of each service and a psql or two
		"shared_buffers":          "256MB", // small enough for a laptop, large enough for the hot rows
		"max_wal_size":            "2GB",   // segments are written once; fewer checkpoints, fewer full pages
		"min_wal_size":            "256MB",
		"jit":                     "off", // the queries are short; compiling them costs more than running them
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %q%a ",
		"log_min_messages":        "warning",
		"log_checkpoints":         "off",
		"log_lock_waits":          "on",
		"password_encryption":     "scram-sha-256",
		"unix_socket_directories": "", // the password decides, not who shares the machine
	}
}

// ThrowawaySettings trade durability for speed. For tests that lose everything at their end anyway.
func ThrowawaySettings() map[string]string {
	settings := DurableSettings()
	maps.Copy(settings, map[string]string{
		"fsync":            "off",
		"full_page_writes": "off",
		"max_connections":  "300", // several test programs at once, four connections a test
		"shared_buffers":   "128MB",
		"wal_level":        "minimal",
		"max_wal_senders":  "0",
		"log_lock_waits":   "off",
	})
	return settings
}

// arguments gives settings on the command line rather than in a file, so that a newer program's settings hold at the
// next start of an old folder.
func arguments(settings map[string]string) []string {
	var argv []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		argv = append(argv, "-c", name+"="+settings[name])
	}
	return argv
}
