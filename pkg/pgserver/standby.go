package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"
)

// Copy makes folder a copy of the running server as it is now, for a Start of its own that comes up as a standby of this
// server: read-only, and following it while it runs. The server must not be a throwaway one, which writes too little log. The
// copy has the same password.
func (s *Server) Copy(ctx context.Context, folder string) error {
	who, err := chooseAccount()
	if err != nil {
		return err
	}
	b, err := s.chooseBinaries()
	if err != nil {
		return err
	}
	f, err := openFolder(folder, who, s.opts.Logger)
	if err != nil {
		return err
	}
	defer f.release()
	if err := writeFile(f.file("password"), s.password+"\n"); err != nil {
		return err
	}
	if err := os.Mkdir(f.unfinishedData(), 0o700); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := who.own(f.unfinishedData()); err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, b.program("pg_basebackup"), "--pgdata="+f.unfinishedData(), "--dbname="+s.DSN("postgres"),
		"--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	cmd.Dir, cmd.Env = "/", serverEnvironment()
	cmd.Stdout, cmd.Stderr = &out, &out
	who.apply(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("copy a server with %s: %w: %s", cmd.Path, err, lastLines(out.String(), 5))
	}
	if err := os.Rename(f.unfinishedData(), f.data()); err != nil {
		return fmt.Errorf("put the copy in place: %w", err)
	}
	return nil
}

// Promote ends a standby's following and returns when it takes writes, on a new timeline.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to promote: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it was for has been answered
	var promoted bool
	if err := conn.QueryRow(ctx, `SELECT pg_promote()`).Scan(&promoted); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	if !promoted {
		return fmt.Errorf("the standby on port %d was not promoted in time", s.port)
	}
	return nil
}
