package config

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBoolAcceptsTheContractsSpellings(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Bool{
		"true": true, "TRUE": true, "1": true, "yes": true, "Yes": true, "on": true, " ON\t": true, " yes ": true,
		"false": false, "False": false, "0": false, "no": false, "off": false, "OFF ": false,
	} {
		got := !want
		if err := got.Set(value); err != nil || got != want {
			t.Errorf("Set(%q) gives %v, %v; want %v", value, got, err, want)
		}
	}
}

func TestBoolLeavesTheDefaultWhenBlank(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", " ", "\t\n"} {
		on, off := Bool(true), Bool(false)
		if err := on.Set(value); err != nil || !bool(on) {
			t.Errorf("Set(%q) on a default of true: %v, %v", value, on, err)
		}
		if err := off.Set(value); err != nil || bool(off) {
			t.Errorf("Set(%q) on a default of false: %v, %v", value, off, err)
		}
	}
}

func TestBoolRefusesNearMisses(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"y", "n", "t", "f", "2", "-1", "enabled", "disabled", "0.0", "maybe", "tru e", "11", "yes,", "null"} {
		got := Bool(true)
		if err := got.Set(value); err == nil || !bool(got) {
			t.Errorf("Set(%q) gives %v, %v; want an error and the default untouched", value, got, err)
		}
	}
}

func TestIntIsSignAndDigits(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Int{
		"0": 0, "160": 160, "-5": -5, "+7": 7, "007": 7, "9223372036854775807": 9223372036854775807, "": 42,
	} {
		got := Int(42)
		if err := got.Set(value); err != nil || got != want {
			t.Errorf("Set(%q) gives %d, %v; want %d", value, got, err, want)
		}
	}
	for _, value := range []string{
		"16O", " 5", "5 ", " ", "1_000", "0x10", "5ms", "1.5", "1e3", "+-1", "--1", "+", "-", "٣", "9223372036854775808",
	} {
		got := Int(42)
		if err := got.Set(value); err == nil || got != 42 {
			t.Errorf("Set(%q) gives %d, %v; want an error and the default untouched", value, got, err)
		}
	}
}

func TestListTrimsAndDropsEmptyEntries(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]List{
		"a,b": {"a", "b"}, " a , ,b,": {"a", "b"}, "": nil, " , ": nil, "/health": {"/health"},
	} {
		got := List{"default"}
		if err := got.Set(value); err != nil {
			t.Errorf("Set(%q): %v", value, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Set(%q) (-want +got):\n%s", value, diff)
		}
	}
}

func TestSecretIsMaskedHoweverItIsPrinted(t *testing.T) {
	t.Parallel()
	type holder struct{ Key Secret }
	secret := Secret("pässwörd")
	asJSON, err := json.Marshal(holder{secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ got, want string }{
		{fmt.Sprint(secret), "<set:8 chars>"},
		{fmt.Sprintf("%s %q", secret, secret), `<set:8 chars> "<set:8 chars>"`},
		{fmt.Sprintf("%+v", holder{secret}), "{Key:<set:8 chars>}"},
		{fmt.Sprintf("%#v", holder{secret}), "config.holder{Key:<set:8 chars>}"},
		{string(asJSON), `{"Key":"\u003cset:8 chars\u003e"}`},
		{secret.LogValue().String(), "<set:8 chars>"},
		{Secret("").String(), "<unset>"},
		{secret.Reveal(), "pässwörd"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}
