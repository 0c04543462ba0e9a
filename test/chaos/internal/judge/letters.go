package judge

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/client"
	"queen.internal/test/history"
)

// letter is a message that a group gave up.
type letter struct{ group, message string }

// told is what clients were answered of the failures of one message in one group.
type told struct {
	failures int  // that were carried out
	dead     int  // of all, how many gave it up
	doubt    bool // some ack that may have given it up was not answered
}

// Letters compares the dead letters of a queue with the acks that made them: each has its row, once, with a payload and a
// reason, no message has failed more often than it may, and no row came from nowhere.
func Letters(ctx context.Context, db *pgxpool.Pool, queue string, retryLimit int, h *history.History) (letters int, wrong []string, err error) {
	acks := failures(h)
	rows, err := db.Query(ctx, `SELECT d.group_name, d.message_id::text, d.retry_count, d.error, octet_length(d.payload)
		FROM queen.dlq d JOIN queen.queues q ON q.id = d.queue_id WHERE q.name = $1`, queue)
	if err != nil {
		return 0, nil, fmt.Errorf("read the dead letters: %w", err)
	}
	defer rows.Close()
	filed := make(map[letter]int)
	for rows.Next() {
		var l letter
		var retries, size int
		var reason string
		if err := rows.Scan(&l.group, &l.message, &retries, &reason, &size); err != nil {
			return 0, nil, fmt.Errorf("read the dead letters: %w", err)
		}
		letters++
		filed[l]++
		if retries > retryLimit || size == 0 || reason == "" {
			wrong = append(wrong, fmt.Sprintf("letter: %v has %d retries of %d, reason %q, %d bytes", l, retries, retryLimit, reason, size))
		}
		if t := acks[l]; t == nil || t.dead == 0 && !t.doubt {
			wrong = append(wrong, fmt.Sprintf("letter: nobody gave up %v", l))
		}
	}
	for l, t := range acks {
		if filed[l] > 1 || t.dead > 0 && filed[l] != 1 {
			wrong = append(wrong, fmt.Sprintf("letter: %v was given up %d times and is filed %d times", l, t.dead, filed[l]))
		}
		if t.failures > retryLimit+1 {
			wrong = append(wrong, fmt.Sprintf("letter: %v failed %d times with a limit of %d", l, t.failures, retryLimit))
		}
	}
	return letters, wrong, rows.Err()
}

// failures are the acks that say no, by message.
func failures(h *history.History) map[letter]*told {
	acks := make(map[letter]*told)
	for i := range h.Acks {
		a := &h.Acks[i]
		for _, item := range a.Items {
			if item.Status == client.Completed || item.Status == client.Retry {
				continue
			}
			l := letter{a.Group, item.ID}
			if acks[l] == nil {
				acks[l] = new(told)
			}
			switch t := acks[l]; {
			case a.Lost:
				t.doubt = true
			case item.OK && !item.Noop:
				if item.Status == client.NotCompleted {
					t.failures++
				}
				if a.Dead {
					t.dead++
				}
			}
		}
	}
	return acks
}
