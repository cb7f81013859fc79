//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFutexRefused: records that the kernel refuses, and that the trace does not
// report, are lost like others: there are no bounds, and nothing is sure.
func TestFutexRefused(t *testing.T) {
	const trace = `            prog-10      [000] .....     1.000000: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] .....     1.003000: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
            prog-11      [001] .....     1.003010: sys_futex -> 0x1
            prog-10      [000] .....     1.003100: sys_futex -> 0x0
`
	live := func(overrun int, flags ...string) (stdout, stderr string) {
		dir, pipe := fakeTracefs(t, "")
		stats := filepath.Join(dir, "instances", "ustack-"+strconv.Itoa(os.Getpid()), "per_cpu", "cpu0", "stats")
		if err := os.WriteFile(stats, []byte("entries: 0\noverrun: 0\ncommit overrun: "+strconv.Itoa(overrun)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		go feed(t, pipe, []byte(trace))
		var out, messages bytes.Buffer
		if code := run(append([]string{"futex", "--live", "--tracefs", dir}, flags...), nil, &out, &messages); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, &messages)
		}
		return out.String(), messages.String()
	}
	for _, overrun := range []int{0, 3} {
		var doc struct {
			Contended struct {
				High *int64 `json:"high_ns"`
			}
			Longest []struct {
				Confidence string `json:"holder_confidence"`
			}
			Loss struct {
				Refused int
				Bounded bool
				Unseen  *int64 `json:"unseen_threads_ns"`
			}
		}
		stdout, stderr := live(overrun, "--json")
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
			t.Fatal(err)
		}
		l, sure := doc.Loss, overrun == 0
		if l.Refused != overrun || l.Bounded != sure || (l.Unseen != nil) != sure || (doc.Contended.High != nil) != sure ||
			len(doc.Longest) != 1 || (doc.Longest[0].Confidence == "high") != sure {
			t.Errorf("%d: %+v\n%s", overrun, doc, stderr)
		}
	}
	stdout, _ := live(3, "-q")
	for _, want := range []string{
		"3.10 ms (seen, records were lost) waited for 1 lock",
		"(low confidence: the kernel refused records, at an unknown time)",
		"\nLoss: the kernel refused 3 records (commit overrun) at unknown times, so all sums are of what was seen.\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
}
