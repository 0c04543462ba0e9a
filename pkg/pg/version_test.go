package pg

import (
	"errors"
	"testing"
)

func TestCheckServerVersion(t *testing.T) {
	t.Parallel()
	for version, accepted := range map[string]bool{
		"15.14 (Debian 15.14-0+deb12u1)": true,
		"15":                             true,
		"17beta2":                        true,
		"18devel":                        true,
		"100.1":                          true,
		"":                               true, // a pooler that hides it
		"unknown":                        true,
		"14.9":                           false,
		"14beta1":                        false,
		"9.6.24":                         false,
	} {
		err := CheckServerVersion(version)
		var old *ServerTooOldError
		if (err == nil) != accepted || err != nil && (!errors.As(err, &old) || old.Version != version) {
			t.Errorf("%q: got %v, want accepted %v", version, err, accepted)
		}
		if err != nil && (!FatalAtBoot(err) || Transient(err)) {
			t.Errorf("%q: fatal at boot %v, transient %v", version, FatalAtBoot(err), Transient(err))
		}
	}
}
