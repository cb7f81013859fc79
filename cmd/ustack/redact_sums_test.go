//go:build !device

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
)

// sumsRecording returns a report of "record --source=bpf" of two programs with names that say who
// runs them.
func sumsRecording() string {
	var b strings.Builder
	b.WriteString("# ustack: escaped=1\n# ustack: version=1\n# ustack: clock=mono\n# ustack: stacks=BPF, unwound from copies, else build IDs by the kernel\n# ustack: mappings=after each wait\n# ustack: events=waits of 10ms and more, sums of all\n")
	line := func(comm string, tid int32, at tracefs.Time, body []byte) {
		fmt.Fprintf(&b, "%16s-%-7d [000] ..... %5d.%06d: %s\n", comm, tid, at/1e9, at%1e9/1000, body)
	}
	const from, to = 1000e9, 1010e9
	var sums []*futex.CallSum
	var ids []*futex.FutexID
	for i, name := range []string{"acme-billing", "alice=1 comm=x"} {
		id := futex.FutexID{Addr: 0x7f00a11ce040 + 64*uint64(i), Memory: 1<<63 + 5, Born: 12345, TGID: 77 + int32(i)}
		w := futex.LongWait{Futex: id, From: from + 1e9, To: from + 2e9, TID: id.TGID + 10, Comm: []byte(name), Ret: -110}
		line(name, w.TID, w.To, futex.AppendLongWait(nil, &w))
		line(name, w.TID, w.To, []byte("<user stack trace>"))
		fmt.Fprintf(&b, " =>  </home/alice/acme/billing%d: +0x1367>\n =>  <0000000000001367> : [build_id=f2cff3c3b7ab791b0ce34ce81cd08497f048bffd] (unresolved: no-path)\n", i)
		sums = append(sums, &futex.CallSum{Results: [futex.Open]int64{1, 2, 3, 0, 0, 1}, Wakes: 7, Woken: 5, Slept: 4, Time: 2e9, Buckets: []uint64{0, 0, 3, 30: 1}, Two: 7, Plain: true, NoTimeout: true, Comm: name})
		ids = append(ids, &id)
	}
	several := futex.FutexID{Addr: futex.Several, Memory: 1<<63 + 5, Born: 12345, TGID: 77}
	ids, sums = append(ids, &several), append(sums, &futex.CallSum{Results: [futex.Open]int64{2}, Slept: 2, Time: 5e6, Comm: "acme-billing"})
	line("ustack", 5, to, futex.AppendSummedTime(nil, from, to, 10e6, &futex.SummedLoss{Waits: 3, Apart: 2}))
	for i, id := range ids {
		line("ustack", 5, to, futex.AppendSum(nil, id, sums[i]))
	}
	line("ustack", 5, to, futex.AppendOthers(nil, &futex.CallSum{Results: [futex.Open]int64{9}, Slept: 9, Time: 3e9, Two: 9, Plain: true}))
	line("ustack", 5, to, futex.AppendOpenWait(nil, &futex.OpenWait{Futex: *ids[0], TID: 99, Comm: "acme-billing", From: from, Val: 2, Cmd: 0}))
	return b.String()
}

// TestRedactSums: a report of sums without names has the same waits as it is, by the same number of
// futexes, threads and stacks, and nothing that identifies.
func TestRedactSums(t *testing.T) {
	dir := t.TempDir()
	plain, hidden := filepath.Join(dir, "plain.txt"), filepath.Join(dir, "hidden.txt")
	if err := os.WriteFile(plain, []byte(sumsRecording()), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, exitOK, "redact", "-q", "-o", hidden, plain)
	if leaks, _ := runs(t, exitFailure, "check-redaction", plain); !strings.Contains(leaks, "acme-billing") || !strings.Contains(leaks, "0x7f00a11ce040") {
		t.Errorf("the report as it is leaks\n%s", leaks)
	}
	if leaks, _ := runs(t, exitOK, "check-redaction", hidden); leaks != "" {
		t.Errorf("leaks\n%s", leaks)
	}
	b, err := os.ReadFile(hidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"acme", "alice", "a11ce", "billing"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is left in\n%s", secret, b)
		}
	}
	var reports [2]any
	for i, name := range []string{plain, hidden} {
		out, _ := runs(t, exitOK, "futex", "--json", name)
		if err := json.Unmarshal([]byte(out), &reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	r := renaming{make(map[string]string), make(map[string]string)}
	if err := r.same("report", reports[0], reports[1]); err != nil {
		t.Error(err)
	}
	if all := reports[0].(map[string]any)["all"]; all == nil || all.(map[string]any)["waits"] != 14.+9+1 {
		t.Errorf("all waits: %v", all)
	}
}
