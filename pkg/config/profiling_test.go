package config

import "testing"

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"":               "",
		"127.0.0.1:6060": "",
		"127.1.2.3:0":    "",
		"localhost:0":    "",
		"[::1]:0":        "",
		"6060":           `QUEEN_PPROF_ADDR="6060" is not host:port`,
		":6060":          `QUEEN_PPROF_ADDR=":6060" is not on the loopback interface`,
		"0.0.0.0:6060":   `QUEEN_PPROF_ADDR="0.0.0.0:6060" is not on the loopback interface`,
		"db.local:6060":  `QUEEN_PPROF_ADDR="db.local:6060" is not on the loopback interface`,
		"10.0.0.1:6060":  `QUEEN_PPROF_ADDR="10.0.0.1:6060" is not on the loopback interface`,
	} {
		got := ""
		if err := (Profiling{PprofAddr: addr}).Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
}

func TestProfilingIsReadAndOffByDefault(t *testing.T) {
	s := struct{ Profiling }{}
	if err := Load(&s); err != nil || s.PprofAddr != "" {
		t.Errorf("%+v (%v)", s, err)
	}
	t.Setenv("QUEEN_PPROF_ADDR", "127.0.0.1:0")
	if err := Load(&s); err != nil || s.PprofAddr != "127.0.0.1:0" {
		t.Errorf("%+v (%v)", s, err)
	}
}
