//go:build !linux

package stand

import "errors"

func mount(string) error { return errors.New("mount a disk for the spools: only on Linux") }

func unmount(string) error { return nil }
