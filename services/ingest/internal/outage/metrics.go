package outage

import "github.com/prometheus/client_golang/prometheus"

// Watch registers what the guard and its folder hold at the moment of a scrape.
func (g *Guard) Watch(registerer prometheus.Registerer) {
	for _, m := range []struct {
		name, help string
		counter    bool
		value      func(s Status) float64
	}{
		{"queen_file_buffer_pending", "Messages that wait in spools of this process.", false, func(s Status) float64 { return float64(s.Pending) }},
		{"queen_file_buffer_failed", "Messages that could be stored neither in the database nor in the spool.", false, func(s Status) float64 { return float64(s.Counters.Failed) }},
		{"queen_file_buffer_db_healthy", "1 while the database answers, as far as is known.", false, func(s Status) float64 { return truth(s.Up) }},
		{"queen_file_buffer_quarantined", "Records and pieces that were set aside, in this folder.", false, func(Status) float64 { return float64(g.o.Folder.Aside()) }},
		{"queen_spool_bytes", "Bytes of files of this process's spools.", false, func(Status) float64 { return float64(g.o.Folder.Bytes()) }},
		{"queen_spool_records", "Records that wait.", false, func(s Status) float64 { return float64(s.Records) }},
		{"queen_spool_folders", "Spools that this process has, adopted ones included.", false, func(s Status) float64 { return float64(s.Spools) }},
		{"queen_spool_full", "1 after a push could not be spooled, until one can.", false, func(s Status) float64 { return truth(s.Full) }},
		{"queen_spool_spooled_messages_total", "Messages that were answered buffered.", true, func(s Status) float64 { return float64(s.Counters.Spooled) }},
		{"queen_spool_replayed_messages_total", "Messages of spools that are settled in the database.", true, func(s Status) float64 { return float64(s.Counters.Replayed) }},
		{"queen_spool_set_aside_records_total", "Records that were set aside.", true, func(s Status) float64 { return float64(s.Counters.SetAside) }},
		{"queen_spool_adopted_total", "Spools of dead processes that were taken over.", true, func(s Status) float64 { return float64(s.Counters.Adopted) }},
		{"queen_spool_barriers_passed_total", "Partitions whose pushes went past records that cannot be replayed.", true, func(s Status) float64 { return float64(s.Counters.Passed) }},
	} {
		value := func() float64 { return m.value(g.Status()) }
		if m.counter {
			registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.name, Help: m.help}, value))
		} else {
			registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.name, Help: m.help}, value))
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
