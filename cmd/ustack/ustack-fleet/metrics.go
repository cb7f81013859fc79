package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"ustack/render/intake"
)

// metrics count what watch does, in the text format of Prometheus.
type metrics struct {
	now func() time.Time

	lock           sync.Mutex
	done, delayed  int64
	rejected       map[string]int64 // by reason
	samples, bytes int64
	lag            time.Duration // of the report that was pushed last
	last           time.Time
}

// Reasons why a report is rejected, as metrics have them.
const (
	rejectedChanged = "changed"
	rejectedCut     = "cut"
	rejectedLarge   = "too_large"
	rejectedSums    = "sums"
	rejectedOther   = "unreadable"
)

func newMetrics() *metrics {
	return &metrics{now: time.Now, rejected: map[string]int64{rejectedChanged: 0, rejectedCut: 0, rejectedLarge: 0, rejectedSums: 0, rejectedOther: 0}}
}

// pushed counts a report that a server has taken.
func (m *metrics) pushed(c *collector, size int64) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.samples += int64(len(c.samples))
	m.bytes += size
	m.last = m.now()
	if d := c.device; d.Begun != nil {
		m.lag = max(m.last.Sub(time.Unix(0, *d.Begun+d.Duration)), 0)
	}
}

// result counts what became of a report.
func (m *metrics) result(what intake.Result, err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	switch what {
	case intake.Done:
		m.done++
	case intake.Delayed:
		m.delayed++
	case intake.Rejected:
		m.rejected[reasonOf(err)]++
	}
}

// reasonOf returns the reason for an error.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errChanged):
		return rejectedChanged
	case errors.Is(err, io.ErrUnexpectedEOF):
		return rejectedCut
	case errors.Is(err, intake.ErrTooLarge):
		return rejectedLarge
	case errors.Is(err, errSums):
		return rejectedSums
	}
	return rejectedOther
}

// ServeHTTP implements http.Handler.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, m.text()) // the reader has gone
}

// text returns the metrics.
func (m *metrics) text() string {
	m.lock.Lock()
	defer m.lock.Unlock()
	var b []byte
	head := func(name, kind, help string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	head("ustack_watch_reports_pushed_total", "counter", "Reports that are at the server.")
	b = fmt.Appendf(b, "ustack_watch_reports_pushed_total %d\n", m.done)
	head("ustack_watch_reports_rejected_total", "counter", "Reports that cannot be read, by reason.")
	for _, reason := range []string{rejectedChanged, rejectedCut, rejectedLarge, rejectedSums, rejectedOther} {
		b = fmt.Appendf(b, "ustack_watch_reports_rejected_total{reason=%q} %d\n", reason, m.rejected[reason])
	}
	head("ustack_watch_delays_total", "counter", "Times that a report could not be pushed, and is tried again later.")
	b = fmt.Appendf(b, "ustack_watch_delays_total %d\n", m.delayed)
	head("ustack_watch_samples_total", "counter", "Samples of the reports that were pushed.")
	b = fmt.Appendf(b, "ustack_watch_samples_total %d\n", m.samples)
	head("ustack_watch_bytes_total", "counter", "Bytes of the reports that were pushed.")
	b = fmt.Appendf(b, "ustack_watch_bytes_total %d\n", m.bytes)
	head("ustack_watch_lag_seconds", "gauge", "From the end of the report that was pushed last to the push.")
	b = fmt.Appendf(b, "ustack_watch_lag_seconds %g\n", m.lag.Seconds())
	if !m.last.IsZero() {
		head("ustack_watch_last_push_timestamp_seconds", "gauge", "When the last report was pushed.")
		b = fmt.Appendf(b, "ustack_watch_last_push_timestamp_seconds %d\n", m.last.Unix())
	}
	return string(b)
}
