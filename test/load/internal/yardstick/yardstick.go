// Package yardstick measures what PostgreSQL itself can do on this machine, with nothing between it and a client: raw
// segment rows written and read, and single rows written. A broker's figures mean something only beside these, taken in
// turn with them. Nothing here is tuned, for or against.
//
// # Concurrency
//
// Each client is a goroutine with a connection of its own. A Yardstick is used by one turn at a time.
package yardstick

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/test/load/internal/payload"
	"queen.internal/test/load/internal/turn"
)

const (
	// SegmentClients and RowClients are how many connections the yardsticks use.
	SegmentClients = 4
	RowClients     = 16
	// PerSegment is how many messages one raw segment row holds.
	PerSegment = 100
)

// Yardstick is a schema of its own in a database.
type Yardstick struct {
	dsn        string
	payloads   *payload.Pool
	partitions int
	next       []int64 // by client and partition: the next base offset
	stored     []place // that Select reads
}

type place struct{ partition, base int64 }

// Open makes the schema, without what an earlier run left in it.
func Open(ctx context.Context, dsn string, payloads *payload.Pool, partitions int) (*Yardstick, error) {
	y := &Yardstick{dsn: dsn, payloads: payloads, partitions: partitions, next: make([]int64, SegmentClients*partitions)}
	return y, y.run(ctx,
		`DROP SCHEMA IF EXISTS queen_yardstick CASCADE`,
		`CREATE SCHEMA queen_yardstick`,
		`CREATE TABLE queen_yardstick.segments (partition_id bigint, base_offset bigint, end_offset bigint NOT NULL,
			created_at timestamptz NOT NULL, payload bytea COMPRESSION lz4 NOT NULL, PRIMARY KEY (partition_id, base_offset))`,
		`CREATE TABLE queen_yardstick.messages (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, partition_id bigint NOT NULL,
			created_at timestamptz NOT NULL, payload bytea COMPRESSION lz4 NOT NULL)`,
	)
}

// Close removes the schema.
func (y *Yardstick) Close(ctx context.Context) error {
	return y.run(ctx, `DROP SCHEMA IF EXISTS queen_yardstick CASCADE`)
}

func (y *Yardstick) run(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, y.dsn)
	if err != nil {
		return fmt.Errorf("connect the yardstick: %w", err)
	}
	for _, sql := range statements {
		if _, err = conn.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("set up the yardstick: %w", err)
			break
		}
	}
	return errors.Join(err, conn.Close(ctx))
}

const (
	insertSegment = `INSERT INTO queen_yardstick.segments VALUES ($1, $2, $3, clock_timestamp(), $4)`
	insertRow     = `INSERT INTO queen_yardstick.messages (partition_id, created_at, payload) VALUES ($1, clock_timestamp(), $2)`
	selectSegment = `SELECT payload FROM queen_yardstick.segments WHERE partition_id = $1 AND base_offset = $2`
)

// client is one connection of a yardstick.
type client struct {
	*Yardstick
	number int
	conn   *pgx.Conn
	rand   *rand.Rand
	buf    []byte
	serial uint64
}

// step is one statement; it returns how many messages it stored or read.
type step func(ctx context.Context, c *client) (int, error)

// repeat lets clients do step until the context ends.
func (y *Yardstick) repeat(ctx context.Context, m *turn.Meter, clients int, do step) error {
	failures := make([]error, clients)
	var workers sync.WaitGroup
	for i := range clients {
		workers.Go(func() { failures[i] = y.client(ctx, m, i, do) })
	}
	workers.Wait()
	return errors.Join(failures...)
}

func (y *Yardstick) client(ctx context.Context, m *turn.Meter, number int, do step) error {
	whole := context.WithoutCancel(ctx) // a statement that began is finished
	conn, err := pgx.Connect(whole, y.dsn)
	if err != nil {
		return fmt.Errorf("connect the yardstick: %w", err)
	}
	c := &client{Yardstick: y, number: number, conn: conn, rand: rand.New(rand.NewPCG(uint64(number), uint64(time.Now().UnixNano())))}
	times := m.Recorder()
	for ctx.Err() == nil && err == nil {
		start := time.Now()
		var n int
		if n, err = do(whole, c); err == nil {
			times.Took(turn.Statement, time.Since(start))
			m.Add(turn.Stored, n)
			m.Add(turn.Calls, 1)
		}
	}
	if err != nil {
		err = fmt.Errorf("yardstick, client %d: %w", number, err)
	}
	return errors.Join(err, conn.Close(whole))
}

// InsertSegments writes raw segment rows of 100 messages, one a transaction, over SegmentClients connections.
func (y *Yardstick) InsertSegments(ctx context.Context, m *turn.Meter) error {
	return y.repeat(ctx, m, SegmentClients, func(ctx context.Context, c *client) (int, error) {
		_, err := c.insertSegment(ctx)
		return PerSegment, err
	})
}

func (c *client) insertSegment(ctx context.Context) (place, error) {
	c.buf = c.buf[:0]
	for range PerSegment {
		c.buf = append(c.buf, c.payloads.At(c.serial)...)
		c.serial++
	}
	partition := c.rand.IntN(c.partitions)
	next := &c.next[c.number*c.partitions+partition]
	// Clients do not share offsets: here nobody serializes the appends of a partition.
	p := place{int64(partition), int64(c.number)<<40 + *next}
	*next += PerSegment
	_, err := c.conn.Exec(ctx, insertSegment, p.partition, p.base, p.base+PerSegment-1, c.buf)
	return p, err
}

// InsertRows writes one row a message, one a transaction, over clients connections.
func (y *Yardstick) InsertRows(clients int) func(context.Context, *turn.Meter) error {
	return func(ctx context.Context, m *turn.Meter) error {
		return y.repeat(ctx, m, clients, func(ctx context.Context, c *client) (int, error) {
			_, err := c.conn.Exec(ctx, insertRow, int64(c.rand.IntN(c.partitions)), c.payloads.At(c.serial))
			c.serial++
			return 1, err
		})
	}
}

// Fill stores messages, in whole segments, for SelectSegments to read.
func (y *Yardstick) Fill(ctx context.Context, messages int) error {
	var mu sync.Mutex
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return y.repeat(ctx, turn.NewMeter(), SegmentClients, func(ctx context.Context, c *client) (int, error) {
		p, err := c.insertSegment(ctx)
		mu.Lock()
		defer mu.Unlock()
		if y.stored = append(y.stored, p); len(y.stored)*PerSegment >= messages {
			stop()
		}
		return PerSegment, err
	})
}

// SelectSegments reads segments that Fill has stored by their keys, over SegmentClients connections, in an order of
// their own.
func (y *Yardstick) SelectSegments(ctx context.Context, m *turn.Meter) error {
	if len(y.stored) == 0 {
		return errors.New("select segments: nothing is stored")
	}
	order := slices.Clone(y.stored)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return y.repeat(ctx, m, SegmentClients, func(ctx context.Context, c *client) (int, error) {
		p := order[(c.number*len(order)/SegmentClients+int(c.serial))%len(order)]
		c.serial++
		var payload []byte
		err := c.conn.QueryRow(ctx, selectSegment, p.partition, p.base).Scan(&payload)
		return len(payload) / c.payloads.Size(), err
	})
}
