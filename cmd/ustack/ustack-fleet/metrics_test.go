package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Lines of the text format of Prometheus, version 0.0.4.
var (
	metricLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*")*\})? (\S+)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)$`)
	helpLine   = regexp.MustCompile(`^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)$`)
)

// parseMetrics returns metrics by name and labels, or an error where a parser may refuse them: each
// has its help and then its type once, its lines come together, and none is there twice.
func parseMetrics(text string) (map[string]float64, error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	values, types, helps := make(map[string]float64), make(map[string]string), make(map[string]bool)
	current := ""
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if m := helpLine.FindStringSubmatch(line); m != nil && !helps[m[1]] {
			helps[m[1]], current = true, m[1]
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil && m[1] == current && types[current] == "" && (m[2] == "counter") == strings.HasSuffix(current, "_total") {
			types[current] = m[2]
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil || m[1] != current || types[current] == "" {
			return nil, fmt.Errorf("%q is out of place", line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if _, twice := values[m[1]+m[2]]; twice || err != nil || value < 0 {
			return nil, fmt.Errorf("%q: %v", line, err)
		}
		values[m[1]+m[2]] = value
	}
	return values, nil
}

// TestParseMetrics: what parseMetrics is to refuse, it refuses.
func TestParseMetrics(t *testing.T) {
	const good = "# HELP a_total A.\n# TYPE a_total counter\na_total{r=\"x\"} 1\na_total{r=\"y\"} 2\n# HELP b B.\n# TYPE b gauge\nb 0.5\n"
	if got, err := parseMetrics(good); err != nil || got[`a_total{r="y"}`] != 2 || got["b"] != 0.5 {
		t.Error(got, err)
	}
	for _, c := range [][2]string{
		{"b 0.5\n", "b 0.5"}, {"b 0.5", "b 0,5"}, {`{r="y"}`, `{r="x"}`}, {`"y"}`, `y}`}, {"# TYPE b gauge\n", ""}, {"b gauge", "b counter"}, {"# HELP b B.\n", ""}, {"b 0.5\n", "b 0.5\na_total 3\n"}, {"B.", ""},
	} {
		if _, err := parseMetrics(strings.Replace(good, c[0], c[1], 1)); err == nil {
			t.Errorf("%q for %q is read", c[1], c[0])
		}
	}
}

// prometheus is a server that scrapes an address, ten times a second.
type prometheus struct {
	t       *testing.T
	address string
}

// startPrometheus starts the program in a directory, and ends it with the test.
func startPrometheus(t *testing.T, dir, target string) prometheus {
	t.Helper()
	work := t.TempDir()
	config := filepath.Join(work, "prometheus.yml")
	writeFile(t, config, fmt.Appendf(nil, "global: {scrape_interval: 100ms, scrape_timeout: 100ms}\nscrape_configs:\n- job_name: watch\n  static_configs: [{targets: ['%s']}]\n", target))
	p := prometheus{t, fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	cmd := exec.Command(filepath.Join(dir, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(work, "data"), "--web.listen-address="+p.address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return p
}

// ask returns the value of a metric that it has scraped, false while it has none.
func (p prometheus) ask(metric string) (value float64, ok bool) {
	p.t.Helper()
	answer, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(metric))
	if err != nil {
		return 0, false // it has not begun
	}
	defer answer.Body.Close()
	var got struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || len(got.Data.Result) != 1 {
		return 0, false
	}
	text, _ := got.Data.Result[0].Value[1].(string)
	value, err = strconv.ParseFloat(text, 64)
	return value, err == nil
}

// until asks until a metric is what is wanted.
func (p prometheus) until(metric string, want float64) {
	p.t.Helper()
	var got float64
	for range 600 {
		var ok bool
		if got, ok = p.ask(metric); ok && got == want {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.t.Fatalf("%s is %g, want %g", metric, got, want)
}

// TestPushMetrics: Prometheus scrapes watch while it pushes to ClickHouse, and has what the server
// has: reports, samples, what was rejected and why, and the time from the end of a report to its
// push. USTACK_PROMETHEUS is the directory of its programs: .ci/clickhouse.
func TestPushMetrics(t *testing.T) {
	s := servers(t, 1)[0]
	programs := os.Getenv("USTACK_PROMETHEUS")
	if programs == "" {
		t.Skip("*** SKIPPED: nothing was shown of Prometheus. USTACK_PROMETHEUS=DIR, with prometheus and promtool, runs this; see .ci/clickhouse")
	}
	s.create("--ddl=clickhouse")
	dir, out := inbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	f, w, address := watcherOf(ctx, t, io.Discard, "--push="+s.address(), "--out", out, dir)
	p := startPrometheus(t, programs, address)
	ended := make(chan error, 1)
	go func() { ended <- f.Directory.Run(ctx, false) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	p.until("ustack_watch_reports_pushed_total", 2)
	for _, reason := range []string{"changed", "cut", "sums"} {
		p.until(fmt.Sprintf("ustack_watch_reports_rejected_total{reason=%q}", reason), 1)
	}
	// A report that has just ended, and one that ended an hour ago.
	for i, ago := range []time.Duration{time.Hour, 0} {
		begin := time.Now()
		name := endedAt(t, dir, fmt.Sprint("late", i), begin.Add(-ago))
		p.until("ustack_watch_reports_pushed_total", float64(3+i))
		lag, _ := p.ask("ustack_watch_lag_seconds")
		if least := ago.Seconds() - 1; lag < least || lag > ago.Seconds()+time.Since(begin).Seconds()+1 {
			t.Errorf("%s: lag %g s, want %v and the time to push", name, lag, ago)
		}
		t.Logf("a report that ended %v before it arrived: lag %.3f s", ago, lag)
	}
	want, err := strconv.ParseFloat(s.number("SELECT count() FROM samples WHERE "+countedOnce), 64)
	if err != nil {
		t.Fatal(err)
	}
	p.until("ustack_watch_samples_total", want)
	if n := s.number("SELECT count() FROM devices"); n != "4" {
		t.Errorf("%s reports", n)
	}
	check := exec.Command(filepath.Join(programs, "promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(w.count.text())
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("promtool: %v\n%s", err, said)
	}
}

// endedAt writes a report whose last event was at a time.
func endedAt(t *testing.T, dir, boot string, at time.Time) string {
	t.Helper()
	name := report(t, t.TempDir(), boot, "three", gitEvents)
	db := filepath.Join(t.TempDir(), "db")
	ran(t, 0, "export", "-q", "-o", db, name)
	d := read[deviceRow](t, db, tableDevices)[0]
	const offset = 1795700000000000000 // of report
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	moved := offset + at.UnixNano() - (*d.Begun + d.Duration)
	to := filepath.Join(dir, filepath.Base(name))
	writeFile(t, to, []byte(strings.Replace(string(text), fmt.Sprint("clock_offset_ns=", offset), fmt.Sprint("clock_offset_ns=", moved), 1)))
	return to
}
