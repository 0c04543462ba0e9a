package main

import (
	"errors"
	"fmt"
	"log/slog"

	"queen.internal/pkg/config"
	"queen.internal/pkg/route"
	"queen.internal/services/gateway/internal/forward"
)

// settings are everything that the environment says to the gateway.
type settings struct {
	config.HTTP
	config.Logging
	config.Profiling
	Mode
	Roles
}

// Mode is which of its two jobs the gateway does.
type Mode struct {
	Name string `envconfig:"QUEEN_GATEWAY_MODE"` // edge or tenancy; unset: tenancy when ControlHost is set, else edge
	// ControlHost is the host of the control database.
	ControlHost string `envconfig:"PXDB_HOST"`
}

const modeEdge = "edge"

// Validate accepts the edge and says why anything else is refused.
func (m Mode) Validate() error {
	switch {
	case m.Name == modeEdge || m.Name == "" && m.ControlHost == "":
		return nil
	case m.Name == "tenancy":
		return errors.New(`QUEEN_GATEWAY_MODE="tenancy": the tenancy gateway is not part of this build (only edge is)`)
	case m.Name == "":
		return errors.New("PXDB_HOST asks for the tenancy gateway, which is not part of this build (QUEEN_GATEWAY_MODE=edge runs the edge)")
	}
	return fmt.Errorf(`QUEEN_GATEWAY_MODE="%s" is not a mode (expected edge or tenancy)`, m.Name)
}

// Roles are where the services of the cell are. Every address that a name resolves to is used. An empty list means that
// the cell has no such service.
type Roles struct {
	Ingest     config.List `envconfig:"QUEEN_INGEST_URL"`
	Deliver    config.List `envconfig:"QUEEN_DELIVER_URL"`
	Maintainer config.List `envconfig:"QUEEN_MAINTAINER_URL"`
	Console    config.List `envconfig:"QUEEN_CONSOLE_URL"`
}

// Validate names the variable with an entry that is not the address of a service.
func (r Roles) Validate() error {
	_, err := r.bases()
	return err
}

// bases are the addresses by role.
func (r Roles) bases() (map[route.Role][]forward.Base, error) {
	bases := make(map[route.Role][]forward.Base)
	for _, given := range []struct {
		role route.Role
		name string
		urls config.List
	}{
		{route.Ingest, "QUEEN_INGEST_URL", r.Ingest},
		{route.Deliver, "QUEEN_DELIVER_URL", r.Deliver},
		{route.Maintainer, "QUEEN_MAINTAINER_URL", r.Maintainer},
		{route.Console, "QUEEN_CONSOLE_URL", r.Console},
	} {
		bases[given.role] = nil
		for _, url := range given.urls {
			base, err := forward.ParseBase(url)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", given.name, err)
			}
			bases[given.role] = append(bases[given.role], base)
		}
	}
	return bases, nil
}

// defaults are the settings of an empty environment: the services on this machine at their native ports.
func defaults() settings {
	return settings{
		HTTP:    config.NewHTTP("gateway"),
		Logging: config.NewLogging(),
		Roles: Roles{
			Ingest:     native("ingest"),
			Deliver:    native("deliver"),
			Maintainer: native("maintainer"),
			Console:    native("console"),
		},
	}
}

func native(service string) config.List {
	return config.List{fmt.Sprintf("http://127.0.0.1:%d", config.NewHTTP(service).Port)}
}

// blocks are the lines of the effective settings.
func (s *settings) blocks(version string) []config.Block {
	return []config.Block{
		{Name: "server", Attrs: []slog.Attr{
			slog.String("version", version), slog.String("addr", s.Addr()), slog.String("mode", modeEdge),
			slog.Int64("max_body_bytes", int64(s.MaxBodyBytes)),
		}},
		{Name: "roles", Attrs: []slog.Attr{
			slog.Any("ingest", s.Ingest), slog.Any("deliver", s.Deliver), slog.Any("maintainer", s.Maintainer), slog.Any("console", s.Console),
		}},
		s.Logging.Block(),
		s.Profiling.Block(),
	}
}
