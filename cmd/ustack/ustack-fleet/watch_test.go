package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
)

// inbox makes a directory with two good reports, one that was cut, one that was changed, and one that
// has sums.
func inbox(t *testing.T) (dir, out string) {
	t.Helper()
	dir, out = t.TempDir(), filepath.Join(t.TempDir(), "out")
	report(t, dir, "a", "one", gitEvents)
	whole, err := os.ReadFile(report(t, dir, "b", "two", gitEvents))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "cut.txt"), whole[:bytes.LastIndexByte(whole[:len(whole)/2], '\n')+1])
	writeFile(t, filepath.Join(dir, "changed.txt"), bytes.Replace(whole, []byte("end events=1008"), []byte("end events=1009"), 1))
	writeFile(t, filepath.Join(dir, "sums.txt"), []byte("            prog-11      [000] .....     1.000000: ustack_futex_wait: a=1\n            prog-11      [000] .....     1.000001: <user stack trace>\n =>  <00007f0000001234>\n"))
	return dir, out
}

// watcherOf returns a watcher that has not begun, and where its metrics are.
func watcherOf(ctx context.Context, t *testing.T, messages io.Writer, args ...string) (f *fleet.Watch, w *watcher, address string) {
	t.Helper()
	f, err := fleet.ParseWatch(append([]string{"-q", "--settle=5ms", "--give-up=10ms"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if w, err = newWatcher(ctx, f, messages, getenv); err != nil {
		t.Fatal(err)
	}
	address, end, err := w.count.serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end() })
	return f, w, address
}

// watching pushes what is in a directory until is so, and returns the metrics.
func watching(t *testing.T, is func(metrics map[string]int64) bool, args ...string) map[string]int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var messages bytes.Buffer
	f, _, address := watcherOf(ctx, t, &messages, args...)
	ended := make(chan error)
	go func() { ended <- f.Directory.Run(ctx, false) }()
	var now map[string]int64
	for range 2000 {
		if now = scrape(t, address); is(now) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !is(now) {
		t.Fatalf("%v: %s", now, &messages)
	}
	return now
}

// scrape returns the metrics as Prometheus gets them.
func scrape(t *testing.T, address string) map[string]int64 {
	t.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatal(err, answer.Header)
	}
	values, err := parseMetrics(string(text))
	if err != nil {
		t.Fatal(err)
	}
	now := make(map[string]int64)
	for name, value := range values {
		now[strings.TrimPrefix(name, "ustack_watch_")] = int64(value)
	}
	return now
}

// TestWatchPush: a server that fails at first gets each report that can be read, once, also
// when watch begins again; the others are rejected by their reason.
func TestWatchPush(t *testing.T) {
	dir, out := inbox(t)
	got := received{t: t, places: make(map[string]bool)}
	failed := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failed < 3 {
			failed++
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got.ServeHTTP(w, r)
	}))
	defer server.Close()
	to := "--push=otlp" + strings.TrimPrefix(server.URL, "http")
	now := watching(t, func(m map[string]int64) bool {
		return m["reports_pushed_total"] == 2 && m[`reports_rejected_total{reason="cut"}`]+m[`reports_rejected_total{reason="sums"}`]+m[`reports_rejected_total{reason="changed"}`] == 3
	}, to, "--out", out, dir)
	if got.asked != 2 || failed != 3 || now["delays_total"] != 3 || now[`reports_rejected_total{reason="sums"}`] != 1 || now["samples_total"] < 100 || now["bytes_total"] == 0 || now["last_push_timestamp_seconds"] == 0 {
		t.Errorf("asked %d times, failed %d times, %v", got.asked, failed, now)
	}
	for _, name := range []string{filepath.Join(out, "a.txt.pushed"), filepath.Join(out, "b.txt.pushed"), filepath.Join(dir, "rejected", "cut.txt"), filepath.Join(dir, "rejected", "sums.txt")} {
		if _, err := os.Lstat(name); err != nil {
			t.Error(err)
		}
	}
	report(t, dir, "c", "two", gitEvents)
	watching(t, func(m map[string]int64) bool { return m["reports_pushed_total"] == 1 }, to, "--out", out, dir)
	if got.asked != 3 {
		t.Errorf("asked %d times for 3 reports", got.asked)
	}
}

// TestWatchOnce: with --once, a server that is down is a failure, and no report is lost or
// rejected.
func TestWatchOnce(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	report(t, dir, "a", "one", gitEvents)
	to := fmt.Sprintf("--push=otlp://127.0.0.1:%d", freePort(t))
	_, said := ran(t, command.Failure, "watch", to, "--once", "--settle=1ms", "--give-up=5ms", "--out", out, dir)
	if !strings.Contains(said, "connection refused") {
		t.Error(said)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a.txt")); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{
		{"--push=x", "--out", out, dir}, {to, dir}, {to, "--out", dir, dir}, {to, "--out", out}, {to, "--metrics=9400", "--out", out, dir},
		{to, "--settle=0s", "--out", out, dir}, {to, "--max-size=x", "--out", out, dir},
	} {
		ran(t, command.Usage, append([]string{"watch"}, args...)...)
	}
}

// TestPushWatch: ClickHouse has each report that arrives, once, also if it was there already.
func TestPushWatch(t *testing.T) {
	s := servers(t, 1)[0]
	db, files := fleetReports(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	if _, err := push(t, s, nil, files[0]); err == nil {
		t.Error("pushed without tables")
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, filepath.Base(name)), text)
	}
	// Without tables, reports wait.
	watching(t, func(m map[string]int64) bool { return m["delays_total"] > 3 }, "--push="+s.address(), "--out", out, dir)
	s.create("--ddl=clickhouse")
	if _, err := push(t, s, nil, files[0]); err != nil {
		t.Fatal(err)
	}
	watching(t, func(m map[string]int64) bool { return m["reports_pushed_total"] == int64(len(files)) }, "--push="+s.address(), "--out", out, dir)
	sameAnswers(t, s, db)
	if n := s.number("SELECT count() FROM devices"); n != fmt.Sprint(len(files)) {
		t.Errorf("%s rows of devices", n)
	}
}
