package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap/resolve"
	"ustack/tracefs/capturetest"
)

const testdata = "../../../testdata"

// ran runs the program and returns what it printed.
func ran(t testing.TB, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, messages bytes.Buffer
	if code := run(args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &messages}); code != want {
		t.Fatalf("%s: exit %d, want %d: %s", args, code, want, &messages)
	}
	return out.String(), messages.String()
}

// report writes a report of a boot, with the events of a capture, and its last line.
func report(t *testing.T, dir, boot, os string, events int) string {
	t.Helper()
	trace := capturetest.Read(t, testdata+"/git-grep/trace.txt.zst")
	head := fmt.Sprintf("# ustack: escaped=1\n# ustack: version=1\n# ustack: kernel=6.6\n# ustack: boot_id=%s\n# ustack: os=%s\n# ustack: clock=mono\n# ustack: clock_offset_ns=1795700000000000000\n", boot, os)
	end := fmt.Sprintf("# ustack: end events=%d stacks=1 frames=1 resolved=0 files=0 lost=0 left_out_events=0 left_out_stacks=0\n", events)
	name := filepath.Join(dir, boot+".txt")
	writeFile(t, name, append([]byte(head), append(trace, end...)...))
	return name
}

func writeFile(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// gitEvents is how many events the capture git-grep has.
const gitEvents = 1008

// read returns all rows of a table.
func read[T any](t *testing.T, dir, table string) (rows []T) {
	t.Helper()
	parts, err := partsOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if err := eachRow(part, table, func(row *T) error {
			rows = append(rows, *row)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// sums are a Sink that sums up waits, apart from what export does.
type sums struct {
	columns []tables.Column
	ns      int64
}

func (s *sums) Row(table string, values []any) error {
	row := make(map[string]any)
	for i, c := range s.columns {
		if table == "waits" {
			row[c.Name] = values[i]
		}
	}
	if ns, ok := row["ns"].(int64); ok && row["slept"] == int64(1) && row["to_ns"] != nil && row["began_before"] == int64(0) {
		s.ns += ns
	}
	return nil
}

// TestExport: reports become tables with the waits that they have, each report and each stack
// once, whatever is exported in which order.
func TestExport(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	files := []string{report(t, dir, "a", "one", gitEvents), report(t, dir, "b", "two", gitEvents), testdata + "/lab-live/hash/save-text/trace.txt.zst"}
	for _, args := range [][]string{files[:1], files, files[1:]} {
		ran(t, command.OK, append([]string{"export", "-q", "-o", db}, args...)...)
	}
	devices := read[deviceRow](t, db, tableDevices)
	if len(devices) != len(files) {
		t.Fatalf("%d reports, want %d", len(devices), len(files))
	}
	waited := make(map[uint64]int64)
	for _, d := range devices {
		i := slices.IndexFunc(files, func(name string) bool { return filepath.Base(name) == d.Name })
		if i < 0 {
			t.Fatalf("there is a report %s", d.Name)
		}
		s := sums{columns: columnsOf("waits")}
		source := tables.Source{From: &saved.Options{Files: files[i : i+1], Dialect: resolve.Auto, Quiet: true}, Symbols: &symbols.Options{}, Places: true}
		if _, err := source.Load(nil, nil, &s); err != nil {
			t.Fatal(err)
		}
		if d.WaitedNS != s.ns || s.ns == 0 && i < 2 {
			t.Errorf("%s: %d ns of waiting, want %d", d.Name, d.WaitedNS, s.ns)
		}
		waited[d.Report] = d.WaitedNS
	}
	if i := slices.IndexFunc(devices, func(d deviceRow) bool {
		return d.Device == "b" && d.OS == "two" && d.Kernel == "6.6" && d.Events == gitEvents && d.Begun != nil
	}); i < 0 {
		t.Errorf("%+v", devices)
	}
	stacks := make(map[uint64]int32)
	for _, s := range read[stackRow](t, db, tableStacks) {
		if _, twice := stacks[s.Stack]; twice {
			t.Errorf("stack %x is there twice", s.Stack)
		}
		stacks[s.Stack] = s.Frames
	}
	for _, f := range read[frameRow](t, db, tableFrames) {
		stacks[f.Stack]--
	}
	for key, left := range stacks {
		if left != 0 {
			t.Errorf("%d frames of stack %x are missing", left, key)
		}
	}
	for _, s := range read[sampleRow](t, db, tableSamples) {
		if s.NS != nil {
			waited[s.Report] -= *s.NS
		}
		for _, key := range []*uint64{s.Stack, s.OwnerStack} {
			if key == nil {
				continue
			}
			if _, ok := stacks[*key]; !ok {
				t.Errorf("a sample has stack %x, which is not there", *key)
			}
		}
	}
	for report, left := range waited {
		if left != 0 {
			t.Errorf("samples of %x lack %d ns", report, left)
		}
	}
}

func columnsOf(table string) []tables.Column {
	for _, t := range tables.All() {
		if t.Name == table {
			return t.Columns
		}
	}
	return nil
}

// TestExportChanged: a report that does not have what it says is left out, and the others are
// not.
func TestExportChanged(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	good, bad := report(t, dir, "a", "one", gitEvents), report(t, dir, "b", "one", gitEvents+1)
	none := filepath.Join(dir, "none")
	_, messages := ran(t, command.Failure, "export", "-q", "-o", db, bad, none, good)
	for _, want := range []string{"1 reports added", "2 of 3 reports were left out", "it has 1008: it was changed", "none: no such file"} {
		if !strings.Contains(messages, want) {
			t.Errorf("%q is not in %s", want, messages)
		}
	}
	if d := read[deviceRow](t, db, tableDevices); len(d) != 1 || d[0].Device != "a" {
		t.Errorf("%+v", d)
	}
	if n := len(read[sampleRow](t, db, tableSamples)); n < 100 {
		t.Errorf("%d samples", n)
	}
}

// TestExportRefused: what would be counted wrong is left out, and says why.
func TestExportRefused(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.txt")
	whole, err := os.ReadFile(report(t, dir, "a", "one", gitEvents))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, cut, whole[:bytes.LastIndexByte(whole[:len(whole)/2], '\n')+1])
	sums := filepath.Join(dir, "sums.txt")
	writeFile(t, sums, []byte("            prog-11      [000] .....     1.000000: ustack_futex_wait: a=1\n            prog-11      [000] .....     1.000001: <user stack trace>\n =>  <00007f0000001234>\n"))
	const ticks = testdata + "/captures/hash/counter/trace.txt.zst"
	_, messages := ran(t, command.Failure, "export", "-q", "-o", db, pipe, cut, sums, ticks)
	for _, want := range []string{"0 reports added", "not a regular file", "it was cut", "it has sums", "its times are ticks"} {
		if !strings.Contains(messages, want) {
			t.Errorf("%q is not in %s", want, messages)
		}
	}
}

// TestStoreTaken: there is one export at a time, and what a killed one has left goes.
func TestStoreTaken(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.newPart()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir); err == nil || !strings.Contains(err.Error(), "another ustack export") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("unfinished tables stay: %v", err)
	}
}

// TestStoreDamaged: a table that is cut, or is none, is an error that names it.
func TestStoreDamaged(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	ran(t, command.OK, "export", "-q", "-o", db, report(t, dir, "a", "one", gitEvents))
	parts, err := partsOf(db)
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	for table, args := range map[string][]string{tableSamples: {"fleet", "top", "--exact"}, tableSums: {"fleet", "top"}, tableDurations: {"fleet", "top"}, tableDevices: {"fleet", "devices"}} {
		t.Run(table, func(t *testing.T) { damaged(t, filepath.Join(parts[0], table+tableSuffix), append(args, db)...) })
	}
}

// damaged damages a table, and expects a question to fail.
func damaged(t *testing.T, name string, args ...string) {
	t.Helper()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := [][]byte{nil, whole[:len(whole)/2], []byte("PAR1 is not all"), whole[:len(whole)-9]}
	for at := 0; at < len(whole); at += 1 + len(whole)/50 {
		text := bytes.Clone(whole)
		text[at] ^= 8
		damaged = append(damaged, text)
	}
	for _, text := range damaged {
		writeFile(t, name, text)
		if _, messages := ran(t, command.Failure, args...); !strings.Contains(messages, name) {
			t.Errorf("%d bytes: %s", len(text), messages)
		}
	}
	writeFile(t, name, whole)
}
