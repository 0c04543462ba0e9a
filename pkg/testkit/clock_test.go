package testkit

import (
	"testing"
	"time"

	"queen.internal/pkg/testkit/faketime"
)

func TestClockDatabaseSteps(t *testing.T) {
	t.Parallel()
	for name, real := range map[string]bool{"Faketime": faketime.Installed(), "Simulated": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newClockDatabase(t, real)
			if d.Real() != real {
				t.Errorf("real: %v", d.Real())
			}
			if _, err := d.Pool.Exec(t.Context(), `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES (gen_random_uuid(), 'q', '', '')`); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct{ by, age time.Duration }{{time.Hour, time.Hour}, {-3 * time.Hour, -2 * time.Hour}, {2 * time.Hour, 0}} {
				d.Step(t, step.by)
				var age float64
				err := d.Pool.QueryRow(t.Context(), `SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 FROM queen.queues`).Scan(&age)
				if err != nil {
					t.Fatal(err)
				}
				if off := time.Duration(age*float64(time.Second)) - step.age; off.Abs() > time.Minute {
					t.Errorf("after a step of %v: %v off", step.by, off)
				}
			}
		})
	}
}
