package clickhouse

import (
	"context"
	"net/http"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/fleet"
)

// TestRetryAfter: a server that is too busy says when to come again; other answers have no say.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{http.StatusTooManyRequests, "7", 7 * time.Second},
		{http.StatusServiceUnavailable, "Fri, 27 Nov 2026 12:00:09 GMT", 9 * time.Second},
		{http.StatusServiceUnavailable, "Fri, 27 Nov 2026 11:00:00 GMT", 0},
		{http.StatusServiceUnavailable, "-1", 0},
		{http.StatusServiceUnavailable, "99999999999999999999", 0},
		{http.StatusServiceUnavailable, "", 0},
		{http.StatusBadGateway, "7", 0},
	} {
		answer := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}
		if got := retryAfter(answer, now); got != c.want {
			t.Errorf("status %d, %q: %v, want %v", c.status, c.header, got, c.want)
		}
	}
}

// TestRetryWaitsAsAsked: a server is not asked again before it wants to be, and none delays
// for longer than the bound.
func TestRetryWaitsAsAsked(t *testing.T) {
	b := Backoff{First: time.Millisecond, Most: time.Millisecond, Total: time.Hour, AskedMost: 20 * time.Minute}
	for header, want := range map[string][2]time.Duration{
		"60":         {time.Minute, time.Minute + time.Second},
		"2000000000": {20 * time.Minute, 20*time.Minute + time.Second},
	} {
		answer := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {header}}}
		ctx, cancel := context.WithCancel(context.Background())
		var wait time.Duration
		err := b.Retry(ctx, func(_ error, pause time.Duration) { wait = pause; cancel() }, func() error {
			return NewError(answer, nil, new(fleet.Credentials))
		})
		if err == nil || wait < want[0] || wait > want[1] {
			t.Errorf("Retry-After: %s: waits %v (%v)", header, wait, err)
		}
	}
}
