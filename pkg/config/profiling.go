package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
)

// Profiling is where a process lets itself be looked into: its processor and memory profiles. They show what is in memory
// to whoever asks, so nobody but this machine may.
type Profiling struct {
	PprofAddr string `envconfig:"QUEEN_PPROF_ADDR"` // host:port on the loopback interface, port 0 a free one; empty: off
}

// Validate refuses an address that others could reach.
func (p Profiling) Validate() error {
	if p.PprofAddr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(p.PprofAddr)
	if err != nil {
		return fmt.Errorf("QUEEN_PPROF_ADDR=%s is not host:port", quote(p.PprofAddr))
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("QUEEN_PPROF_ADDR=%s is not on the loopback interface", quote(p.PprofAddr))
	}
	return nil
}

// Block is the profiling line of the effective settings.
func (p Profiling) Block() Block {
	return Block{"profiling", []slog.Attr{slog.String("pprof_addr", p.PprofAddr)}}
}
