package main

import (
	"os"
	"path/filepath"
	"testing"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

// A queue wants encryption, and the process that replays has no key: what it set aside is stored once one has it, and is asked
// for it.
func TestOutage_WhatWasSetAsideIsStoredWhenItIsMovedToRetry(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	dir := t.TempDir()
	in := func(key string) func(*settings) {
		return func(s *settings) { s.Dir, s.Key = dir, config.Secret(key) }
	}
	s := ready(t, link.config(), in(""))
	s.mustPush(t, items(item("secrets", "a", "t0")))
	link.set(down)
	announced := s.mustPush(t, items(item("secrets", "a", "t1")))[0]
	if announced.Status != "buffered" {
		t.Fatalf("pushed during the outage: %+v", announced)
	}
	switchEncryption(t, db, "secrets", true)
	link.set(up)
	s.logs.await(t, "a record of the spool is set aside")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "aside", "*.keyless"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("set aside: %v, %v", kept, err)
	}

	s = ready(t, link.config(), in(encryptionKey))
	if err := os.Rename(kept[0], filepath.Join(dir, "retry", filepath.Base(kept[0]))); err != nil {
		t.Fatal(err)
	}
	s.logs.await(t, "a record that was set aside is replayed")
	if all, ids := transactions(t, db, "secrets", "a"); len(all) != 2 || ids["t1"] != announced.MessageID {
		t.Errorf("stored: %v, %v; announced: %+v", all, ids, announced)
	}
	if _, sealed := opened(t, payloads(t, db, "secrets", "a")); len(sealed) != 2 || sealed[0] || !sealed[1] {
		t.Errorf("sealed: %v", sealed)
	}
	testkit.Eventually(t, "the file is removed and its note, too", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "retry"))
		notes := -1
		if err == nil {
			err = db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM queen.spool_marks").Scan(&notes)
		}
		return err == nil && len(left) == 1 && notes == 0 // one is the lock
	})
}
