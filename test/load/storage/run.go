package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/pgserver"
)

type options struct {
	rounds int
	turn   time.Duration
	dsn    string
}

// figure is one turn of one choice.
type figure struct {
	perSecond  float64 // messages, or reads
	logBytes   float64 // of write-ahead log, a message
	tableBytes float64 // of growth on disk, a message
}

func run(ctx context.Context, opts options, out, progress io.Writer) error {
	if opts.dsn != "" {
		return compare(ctx, opts.dsn, opts, out, progress)
	}
	folder, err := pgserver.TemporaryFolder()
	if err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Folder: folder, RemoveIfKilled: true})
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	err = compare(ctx, server.DSN("postgres"), opts, out, progress)
	return errors.Join(err, server.Stop(context.WithoutCancel(ctx)), os.RemoveAll(folder))
}

// compare measures every set on one server.
func compare(ctx context.Context, dsn string, opts options, out, progress io.Writer) error {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["search_path"] = "queen_storage_bench"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	for _, s := range []set{payloadForms(), smallForms(), segmentSizes(), allocations(), lookups()} {
		if err := measure(ctx, pool, s, opts, out, progress); err != nil {
			return fmt.Errorf("%s: %w", s.question, err)
		}
	}
	return nil
}

func measure(ctx context.Context, pool *pgxpool.Pool, s set, opts options, out, progress io.Writer) error {
	for _, sql := range []string{`DROP SCHEMA IF EXISTS queen_storage_bench CASCADE`, `CREATE SCHEMA queen_storage_bench`} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	for _, c := range s.choices {
		for _, sql := range c.setup {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return fmt.Errorf("set up %q: %w", c.name, err)
			}
		}
	}
	figures := make([][]figure, len(s.choices))
	for round := range opts.rounds {
		for i := range s.choices {
			f, err := turn(ctx, pool, s, i, opts.turn)
			if err != nil {
				return fmt.Errorf("%q: %w", s.choices[i].name, err)
			}
			figures[i] = append(figures[i], f)
			fmt.Fprintf(progress, "%s: round %d of %d, %q: %.0f/s\n", s.question, round+1, opts.rounds, s.choices[i].name, f.perSecond)
		}
	}
	if _, err := pool.Exec(ctx, `DROP SCHEMA queen_storage_bench CASCADE`); err != nil {
		return err
	}
	return report(out, s, figures)
}

// turn lets the set's workers repeat one choice's step for d.
func turn(ctx context.Context, pool *pgxpool.Pool, s set, choice int, d time.Duration) (figure, error) {
	before, err := sizes(ctx, pool)
	if err != nil {
		return figure{}, err
	}
	var count atomic.Int64
	var workers sync.WaitGroup
	failures := make([]error, s.workers)
	start := time.Now()
	for w := range s.workers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(w)))
			for time.Since(start) < d {
				n, err := s.choices[choice].step(ctx, pool, r, w)
				if err != nil {
					failures[w] = err
					return
				}
				count.Add(int64(n))
			}
		})
	}
	workers.Wait()
	elapsed := time.Since(start)
	for _, err := range failures {
		if err != nil {
			return figure{}, err
		}
	}
	after, err := sizes(ctx, pool)
	if err != nil {
		return figure{}, err
	}
	n := float64(max(count.Load(), 1))
	return figure{n / elapsed.Seconds(), float64(after.log-before.log) / n, float64(after.tables-before.tables) / n}, nil
}

type size struct{ log, tables int64 }

func sizes(ctx context.Context, pool *pgxpool.Pool) (s size, err error) {
	err = pool.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, coalesce(sum(pg_total_relation_size(c.oid)), 0)
		FROM pg_class c WHERE c.relnamespace = 'queen_storage_bench'::regnamespace AND c.relkind = 'r'`).Scan(&s.log, &s.tables)
	return s, err
}

func report(out io.Writer, s set, figures [][]figure) error {
	fmt.Fprintf(out, "\n%s\n\n", s.question)
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "| choice\t| per second\t| to the first\t| WAL bytes each\t| disk bytes each\t|")
	fmt.Fprintln(table, "|---\t|---\t|---\t|---\t|---\t|")
	for i, c := range s.choices {
		var perSecond, ratio, logBytes, tableBytes []float64
		for round, f := range figures[i] {
			perSecond = append(perSecond, f.perSecond)
			ratio = append(ratio, f.perSecond/figures[0][round].perSecond)
			logBytes = append(logBytes, f.logBytes)
			tableBytes = append(tableBytes, f.tableBytes)
		}
		fmt.Fprintf(table, "| %s\t| %.0f\t| %.2f\t| %.0f\t| %.0f\t|\n", c.name, median(perSecond), median(ratio), median(logBytes), median(tableBytes))
	}
	return table.Flush()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
