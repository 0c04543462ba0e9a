package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type command int

const (
	commandRun command = iota
	commandHelp
	commandVersion
	commandHealthcheck
	commandMigrate
)

// parseArgs reads the few arguments a service takes; everything else is set by the environment.
func parseArgs(args []string, flags []Flag) (command, map[string]bool, error) {
	given := map[string]bool{}
	for i, arg := range args {
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		switch {
		case arg == "-h" || arg == "--help" || arg == "-help" || arg == "help":
			return commandHelp, nil, nil
		case arg == "--version" || arg == "-version" || arg == "version":
			return commandVersion, nil, nil
		case arg == "healthcheck" && len(args) == 1:
			return commandHealthcheck, nil, nil
		case arg == "migrate" && i == 0:
			return commandMigrate, nil, nil
		case name != arg && hasFlag(flags, name):
			given[name] = true
		default:
			return commandRun, nil, fmt.Errorf("unknown argument %q", arg)
		}
	}
	return commandRun, given, nil
}

func hasFlag(flags []Flag, name string) bool {
	for _, flag := range flags {
		if flag.Name == name {
			return true
		}
	}
	return false
}

func (p process) usage() string {
	var b strings.Builder
	line := func(argument, meaning string) { fmt.Fprintf(&b, "  %-14s %s\n", argument, meaning) }
	fmt.Fprintf(&b, "usage: %s [argument]\n\nWithout an argument it serves until it gets SIGINT or SIGTERM; a second one ends it at once.\n"+
		"Settings come from the environment alone, see docs/configuration.md.\n\n", p.service)
	for _, flag := range p.flags {
		line("--"+flag.Name, flag.Usage)
	}
	line("healthcheck", "ask the service that listens on PORT whether it is ready; exit 0 or 1")
	line("--version", "print the version")
	line("--help", "print this text")
	return b.String()
}

func describeVersion(service, version string) string {
	return fmt.Sprintf("queen-%s %s %s %s/%s", service, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// resolveVersion is the stamped version, or what the toolchain recorded about the checkout, or "dev".
func resolveVersion(stamped string) string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value[:min(len(setting.Value), 12)]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "dev"
	}
	return revision + dirty
}
