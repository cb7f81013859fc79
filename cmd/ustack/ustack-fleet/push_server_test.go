package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
)

// everyKill kills the server at each insert in each way, and not at some of them.
var everyKill = flag.Bool("every-kill", false, "kill ClickHouse at each insert of a push")

// hooked is a transport that does something at one insert.
type hooked struct {
	at   int // from 0; -1 is none
	do   func(request *http.Request) (*http.Response, error)
	seen int
}

func (h *hooked) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasPrefix(request.URL.Query().Get("query"), "INSERT") {
		h.seen++
		if h.seen-1 == h.at {
			return h.do(request)
		}
	}
	return http.DefaultTransport.RoundTrip(request)
}

// push pushes reports, each in a batch of its own, and returns what was said.
func push(t *testing.T, s *server, transport http.RoundTripper, files ...string) (string, error) {
	t.Helper()
	f, err := fleet.ParsePush(append([]string{"-q", s.address()}, files...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	p, err := newPusher(f, &messages, getenv, transport)
	if err != nil {
		t.Fatal(err)
	}
	p.maxBytes, p.client.Wait.First = 1, time.Millisecond
	err = p.run(context.Background())
	return messages.String(), err
}

// questions are those that both kinds of tables answer.
func questions() []string {
	return []string{"top", "top --locks", "top --by=devices", "top --by=p99", "top --by=waits", "top --top=3", "devices", "diff --a=it's --b=two", "diff --a=two --b=it's", "diff --locks --a=two --b=it's"}
}

// sameAnswers compares the answers of a server with those of a directory: those of the
// program, and those of the statements that it prints.
func sameAnswers(t *testing.T, s *server, db string) {
	t.Helper()
	t.Setenv("USTACK_CLICKHOUSE_USER", "fleet")
	t.Setenv("USTACK_CLICKHOUSE_PASSWORD", password)
	for _, question := range questions() {
		args := append([]string{"fleet"}, strings.Fields(question)...)
		want, _ := ran(t, command.OK, append(args, "--format=csv", db)...)
		got, _ := ran(t, command.OK, append(args, "--format=csv", s.address())...)
		if got != want || strings.Count(want, "\n") < 2 {
			t.Errorf("%s: the server has\n%s, the directory\n%s", question, got, want)
		}
		statement, _ := ran(t, command.OK, append(args, "--sql", s.address())...)
		rows, err := s.client().Query(context.Background(), strings.TrimSuffix(statement, ";\n"))
		if err != nil || len(rows) != strings.Count(want, "\n")-1 {
			t.Errorf("%s: %d rows of the statement that is printed: %v", question, len(rows), err)
		}
		for i, line := range strings.Split(strings.TrimSuffix(want, "\n"), "\n")[1:] {
			var cells []string
			for _, cell := range rows[i] {
				if cell == nil {
					cell = new(string)
				}
				cells = append(cells, *cell)
			}
			if strings.Join(cells, ",") != line {
				t.Errorf("%s: the statement that is printed has %q, want %s", question, cells, line)
			}
		}
	}
}

// fleetReports writes reports of three devices, and a directory with their tables.
func fleetReports(t *testing.T) (db string, files []string) {
	t.Helper()
	dir := t.TempDir()
	db = filepath.Join(dir, "db")
	files = []string{report(t, dir, "a", "it's", gitEvents), report(t, dir, "b\\'; --", "two", gitEvents), report(t, dir, "c", "two", gitEvents)}
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	return db, files
}

// TestPush: reports that are pushed, again, at once, and beside others that are left out,
// count once, and the answers are those of a directory.
func TestPush(t *testing.T) {
	s := servers(t, 1)[0]
	db, files := fleetReports(t)
	if _, err := push(t, s, nil, files...); err == nil || !strings.Contains(err.Error(), "--ddl=clickhouse") {
		t.Errorf("without tables: %v", err)
	}
	s.create("--ddl=clickhouse")
	s.create("--ddl=clickhouse") // changes nothing

	said, err := push(t, s, nil, files[0], filepath.Join(t.TempDir(), "none"), files[0])
	if err == nil || !strings.Contains(said, "1 reports pushed, 1 were there already") || !strings.Contains(err.Error(), "1 of 3 reports were left out") {
		t.Errorf("%s, %v", said, err)
	}
	// While the second push sends its first rows, a third one sends all.
	third := func(request *http.Request) (*http.Response, error) {
		if said, err := push(t, s, nil, files...); err != nil || !strings.Contains(said, "2 reports pushed, 1 were there") {
			t.Errorf("%s, %v", said, err)
		}
		return http.DefaultTransport.RoundTrip(request)
	}
	if said, err := push(t, s, &hooked{do: third}, files...); err != nil || !strings.Contains(said, "2 reports pushed, 1 were there") {
		t.Errorf("%s, %v", said, err)
	}
	if n := s.number("SELECT count() FROM devices"); n == fmt.Sprint(len(files)) {
		t.Errorf("%s rows of %d devices: nothing was pushed at once", n, len(files))
	}
	sameAnswers(t, s, db)
	for _, n := range read[deviceRow](t, db, tableDevices) {
		where := fmt.Sprintf("FROM devices FINAL WHERE report = %d", n.Report)
		if got := s.number("SELECT concat(device, '|', name, '|', toString(assumeNotNull(begun)), '|', toString(waits)) " + where); got != fmt.Sprintf("%s|%s|%d|%d", n.Device, n.Name, *n.Begun, n.Waits) {
			t.Errorf("%s, want %+v", got, n)
		}
	}
	sameFrames(t, s, db)
}

// sameFrames compares stacks and frames of a server with those of a directory.
func sameFrames(t *testing.T, s *server, db string) {
	t.Helper()
	optional := func(s *string) string {
		if s == nil {
			return "NULL"
		}
		return *s
	}
	var want, got []string
	for _, f := range read[frameRow](t, db, tableFrames) {
		offset := "NULL"
		if f.Offset != nil {
			offset = fmt.Sprint(*f.Offset)
		}
		want = append(want, strings.Join([]string{fmt.Sprint(f.Stack), fmt.Sprint(f.Depth), optional(f.BuildID), optional(f.Path), offset, optional(f.Reason)}, "|"))
	}
	rows, err := s.client().Query(context.Background(), "SELECT stack, depth, build_id, path, offset, reason FROM frames FINAL")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, optional(cell))
		}
		got = append(got, strings.Join(cells, "|"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%d frames, want %d, or others", len(got), len(want))
	}
}

// ways are those in which a server is killed at an insert. Each returns an error, as the
// request does not get its answer.
func ways(s *server) map[string]func(*http.Request) (*http.Response, error) {
	return map[string]func(*http.Request) (*http.Response, error){
		"before": func(r *http.Request) (*http.Response, error) {
			s.kill()
			defer s.start()
			return http.DefaultTransport.RoundTrip(r)
		},
		"during": func(r *http.Request) (*http.Response, error) {
			defer s.start()
			r.Body = &killing{ReadCloser: r.Body, s: s, left: r.ContentLength / 2}
			return http.DefaultTransport.RoundTrip(r)
		},
		"after": func(r *http.Request) (*http.Response, error) {
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err == nil {
				answer.Body.Close()
				err = errors.New("the answer is lost")
			}
			s.kill()
			s.start()
			return nil, err
		},
	}
}

// killing is a body that kills the server when half of it was sent.
type killing struct {
	io.ReadCloser
	s    *server
	left int64
}

func (k *killing) Read(b []byte) (int, error) {
	if k.left <= 0 {
		k.s.kill()
		return k.ReadCloser.Read(b)
	}
	n, err := k.ReadCloser.Read(b[:min(int64(len(b)), k.left)])
	k.left -= int64(n)
	return n, err
}

// inserts is how many inserts a batch has.
const inserts = 4

// TestPushKilled: a server that is killed at any insert of a push, and starts again, has
// each report once.
func TestPushKilled(t *testing.T) {
	s := servers(t, 1)[0]
	db, files := fleetReports(t)
	s.create("--ddl=clickhouse")
	left := 0
	// The first batch has all four inserts, the others only samples and devices, as the
	// reports have the same stacks.
	for at := range 2 * inserts {
		for way, do := range ways(s) {
			if !*everyKill && at%3 != len(way)%2 {
				continue
			}
			said, err := push(t, s, &hooked{at: at, do: do}, files...)
			if err != nil || !strings.Contains(said, "3 reports pushed, 0 were there") || strings.Count(said, "trying again") == 0 {
				t.Fatalf("killed %s insert %d: %s, %v", way, at, said, err)
			}
			sameAnswers(t, s, db)
			if s.number("SELECT count() FROM samples") != fmt.Sprint(len(read[sampleRow](t, db, tableSamples))) {
				left++
			}
			if t.Failed() {
				t.Fatalf("killed %s insert %d", way, at)
			}
			s.empty("")
		}
	}
	if left == 0 {
		t.Error("no push that did not end has left samples")
	}
}

// TestPushShards: with two servers as shards each has a part, a shard that is killed is waited
// for, and the answers are those of a directory from either.
func TestPushShards(t *testing.T) {
	s := servers(t, 2)
	db, files := fleetReports(t)
	for i := range 7 {
		files = append(files, report(t, t.TempDir(), fmt.Sprintf("more%d", i), "it's", gitEvents))
	}
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	for _, one := range s {
		one.create("--ddl=clickhouse-distributed")
	}
	for _, way := range []string{"before", "after"} {
		// The first server has the connection; the other one is killed.
		said, err := push(t, s[0], &hooked{at: 2*inserts + len(way)%2, do: ways(s[1])[way]}, files...)
		if err != nil || !strings.Contains(said, "10 reports pushed, 0 were there") {
			t.Fatalf("killed %s: %s, %v", way, said, err)
		}
		for _, one := range s {
			if n := one.number("SELECT count() FROM samples_local"); n == "0" {
				t.Errorf("a shard has no samples")
			}
			if n := one.number("SELECT uniqExact(report) FROM devices"); n != "10" {
				t.Errorf("%s reports", n)
			}
			sameAnswers(t, one, db)
		}
		if said, err := push(t, s[1], nil, files...); err != nil || !strings.Contains(said, "0 reports pushed, 10 were there") {
			t.Errorf("pushed again: %s, %v", said, err)
		}
		for _, one := range s {
			one.empty("_local")
		}
	}
}
