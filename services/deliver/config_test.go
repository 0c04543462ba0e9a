package main

import (
	"testing"
	"time"

	"queen.internal/pkg/wire"
)

func TestSettings_PopDefaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		adjust func(*settings)
		want   wire.PopDefaults
	}{
		"nothing set":       {func(*settings) {}, wire.PopDefaults{Timeout: 30 * time.Second, Mode: wire.ModeNew}},
		"timeout":           {func(s *settings) { s.Timeout = 1500 }, wire.PopDefaults{Timeout: 1500 * time.Millisecond, Mode: wire.ModeNew}},
		"the older wins":    {func(s *settings) { s.Timeout, s.OldTimeout = 1500, 2500 }, wire.PopDefaults{Timeout: 2500 * time.Millisecond, Mode: wire.ModeNew}},
		"the older too low": {func(s *settings) { s.OldTimeout = -1 }, wire.PopDefaults{Timeout: time.Millisecond, Mode: wire.ModeNew}},
		"new by any name":   {func(s *settings) { s.Mode = " NEW_only " }, wire.PopDefaults{Timeout: 30 * time.Second, Mode: wire.ModeNew}},
		"all":               {func(s *settings) { s.Mode = "all" }, wire.PopDefaults{Timeout: 30 * time.Second, Mode: wire.ModeAll}},
		"anything else":     {func(s *settings) { s.Mode = "earliest" }, wire.PopDefaults{Timeout: 30 * time.Second, Mode: wire.ModeAll}},
	}
	for name, test := range tests {
		s := defaults()
		test.adjust(&s)
		if got := s.popDefaults(); got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFactor_IsANumberOfAtLeastOne(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]factor{"": 2, "1.5": 1.5, "3": 3, "0.5": 1, "-2": 1, "1e1": 10} {
		f := factor(2)
		if err := f.Set(value); err != nil || f != want {
			t.Errorf("%q is %v, %v", value, f, err)
		}
	}
	for _, value := range []string{"x", " 2", "NaN", "Inf", "1e400", "2x"} {
		f := factor(2)
		if err := f.Set(value); err == nil {
			t.Errorf("%q is %v", value, f)
		}
	}
}

func TestSettings_EveryBlockHasAName(t *testing.T) {
	t.Parallel()
	s := defaults()
	names := map[string]bool{}
	for _, block := range s.blocks("test") {
		if block.Name == "" || names[block.Name] || len(block.Attrs) == 0 {
			t.Errorf("block %q", block.Name)
		}
		names[block.Name] = true
	}
}
