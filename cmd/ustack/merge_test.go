package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// eventLine is what counts in a line of JSON.
type eventLine struct {
	Type, Name, Args string
	NoStack          string `json:"no_stack"`
	Stack            []struct {
		Path, BuildID, Offset, Reason string
	}
}

func (e *eventLine) key(name string) string {
	k := name + "|" + strings.ReplaceAll(e.NoStack, " ", "_")
	for _, f := range e.Stack {
		if f.Path != "" {
			k += "|" + strings.ReplaceAll(f.Path, "\n", `\012`) + "+" + f.Offset
		} else {
			k += "|" + f.Reason
		}
	}
	return k
}

func eventLines(t *testing.T, file string) []eventLine {
	t.Helper()
	out, _ := runs(t, exitOK, "replay", "-q", "--format=json", file)
	var all []eventLine
	in := bufio.NewScanner(strings.NewReader(out))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e eventLine
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "event" {
			all = append(all, e)
		}
	}
	return all
}

// TestMergeCounts: each stack is in the merged report once, and counted for each
// device as often as it stands in the device's reports.
func TestMergeCounts(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	dir := t.TempDir()
	captures := []string{"hash/pipe_default", "hash/edge", "inode/pipe_default", "hash/edge"}
	boots := []string{"one", "two", "", "one"} // the last one is another report of the first device
	devices := []string{"1", "2", "3", "1"}    // which that is
	want := map[string]map[string]int64{}
	args := []string{"merge", "-q", "-o", filepath.Join(dir, "all.zst")}
	for i, c := range captures {
		text := string(capturetest.Read(t, filepath.Join("..", "..", "testdata", "captures", filepath.FromSlash(c), "trace.txt.zst")))
		if boots[i] != "" {
			text = "# ustack: version=1\n# ustack: boot_id=" + boots[i] + "\n" + text
		}
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
		for _, e := range eventLines(t, name) {
			k := e.key(e.Name)
			if want[k] == nil {
				want[k] = map[string]int64{}
			}
			want[k][devices[i]]++
		}
	}
	runs(t, exitOK, args...)
	seen := 0
	for _, e := range eventLines(t, filepath.Join(dir, "all.zst")) {
		fields := map[string]string{}
		for _, f := range strings.Fields(e.Args) {
			k, v, _ := strings.Cut(f, "=")
			fields[k] = v
		}
		if e.Name != "stack_count" || fields["event"] == "none" {
			continue
		}
		if e.NoStack = ""; fields["no_stack"] != "" {
			e.NoStack = fields["no_stack"]
		}
		k := e.key(fields["event"])
		var sum int64
		for part := range strings.SplitSeq(fields["by_device"], ",") {
			d, n, _ := strings.Cut(part, ":")
			got, _ := strconv.ParseInt(n, 10, 64)
			sum += got
			if want[k][d] != got {
				t.Errorf("device %s: %d, want %d: %s", d, got, want[k][d], k)
			}
			delete(want[k], d)
		}
		if fields["count"] != fmt.Sprint(sum) {
			t.Errorf("count %s, %d by device", fields["count"], sum)
		}
		if len(want[k]) == 0 {
			delete(want, k)
		}
		seen++
	}
	for k, left := range want {
		t.Errorf("not counted: %v %s", left, k)
	}
	if seen < 100 {
		t.Errorf("%d stacks", seen)
	}
	merged := string(capturetest.Read(t, filepath.Join(dir, "all.zst")))
	for _, line := range []string{"# ustack: devices=3\n", "# ustack: device1.boot_id=one\n", "# ustack: device1.reports=2\n", "# ustack: device3.reports=1\n"} {
		if !strings.Contains(merged, line) {
			t.Errorf("no %q", line)
		}
	}
	if n := strings.Count(merged, "path=/lib/x86_64-linux-gnu/libc.so.6 build_id={0xec61ac93,"); n != 1 {
		t.Errorf("libc is announced %d times", n)
	}
	redacted, both := filepath.Join(dir, "redacted.zst"), filepath.Join(dir, "both.zst")
	runs(t, exitOK, "redact", "-q", "-o", redacted, filepath.Join(dir, "0"))
	runs(t, exitOK, "merge", "-q", "-o", both, redacted, redacted)
	runs(t, exitOK, "check-redaction", both)
	runs(t, exitFailure, "merge", "-o", filepath.Join(dir, "again.zst"), filepath.Join(dir, "all.zst"))
}
