//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// labOdd are runs of testdata/live/odd.c, with events that ask for stacks anywhere in a
// program, and of several ustacks at once.
var labOdd = []labRun{
	{name: "setns", args: "-- $W/odd $W setns 30", copies: map[string][]string{"/tmp/odd.so": {"libplug1.so", "libplug2.so"}}},
	{name: "setns-text", args: "--source=text -- $W/odd $W setns 20", copies: map[string][]string{"/tmp/odd.so": {"libplug1.so", "libplug2.so"}}},
	{name: "reuse", args: "-- $W/odd $W reuse 60"},
	{name: "reuse-text", args: "--source=text -- $W/odd $W reuse 40"},
	{name: "reuse-lossy", args: "-b 8 -- $W/odd $W reuse 60", lossy: true},
	{name: "execwait", args: "-e syscalls:sys_enter_futex -e syscalls:sys_enter_execve -- $W/odd $W execwait 30"},
	{name: "execwait-text", args: "--source=text -- $W/odd $W execwait 24"},
	{name: "share", args: "-- $W/odd $W share 60"},
	{name: "share-text", args: "--source=text -- $W/odd $W share 40"},
	{name: "pid", args: "-- $W/odd $W pid 60"},
	{name: "pid-text", args: "--source=text -- $W/odd $W pid 40"},
	{name: "pid-query", args: "--mappings=query -- $W/odd $W pid 40", lossy: true},
	{name: "signal", args: "-- $W/odd $W signal 40"},
	{name: "signal-text", args: "--source=text -- $W/odd $W signal 30"},
	{name: "move", args: "-- $W/odd $W move 40"},
	{name: "move-text", args: "--source=text -- $W/odd $W move 30"},
	{name: "faults", args: "-b 16384 -e syscalls:sys_enter_futex -e exceptions:page_fault_user -e irq:irq_handler_entry -e timer:hrtimer_expire_entry -e sched:sched_switch -- $W/odd $W reuse 20", anywhere: true},
	{name: "faults-exec", args: "-b 16384 -e syscalls:sys_enter_futex -e exceptions:page_fault_user -e irq:irq_handler_entry -e timer:hrtimer_expire_entry -e sched:sched_switch -- $W/execstorm $W 3 4", anywhere: true},
	// A storm that has begun before, and lasts for four seconds of the trace.
	{name: "amid", args: "-p $storm", lossy: true,
		before: "$W/tagstorm $W 100000000 4 & storm=$!; sleep 1\n" +
			"{ until grep -q 'clock mono' /mnt/amid.err; do sleep 0.2; done; sleep 4; kill $storm; } &",
		after: "wait $storm"},
	// Three at once: one of them asks processes, and one loses records.
	{name: "three", args: "-- $W/odd $W reuse 30", lossy: true,
		before: "$W/ustack live --mappings=query --format=json -o /mnt/three-query.json 2>/mnt/three-query.err & query=$!\n" +
			"$W/ustack live --source=text -b 64 --unwind=fp --format=json -o /mnt/three-text.json 2>/mnt/three-text.err & text=$!\n" +
			"until grep -q 'clock mono' /mnt/three-text.err && grep -q 'clock mono' /mnt/three-query.err; do sleep 0.2; done",
		after: "kill -INT $query $text; wait $query $text"},
	{name: "three-query", lossy: true, asks: true},
	{name: "three-text", lossy: true},
}

// labOddSaved are replayed here, too.
var labOddSaved = []string{"setns", "reuse", "pid", "move", "share"}

func labOddScript(t *testing.T) string {
	var script strings.Builder
	for _, r := range labOdd {
		if r.args != "" && labWanted(t, r.name) {
			script.WriteString(r.script())
		}
	}
	for _, name := range labOddSaved {
		if labWanted(t, "saved-"+name) {
			fmt.Fprintf(&script, "timeout 150 $W/ustack record -o /mnt/record-%s -- $W/odd $W %[1]s 30 2>/mnt/record-%[1]s.err || echo record-%[1]s: failed with $? >>/mnt/failed\n", name)
			fmt.Fprintf(&script, "timeout 150 $W/ustack live --format=json -o /mnt/live-%s --save /mnt/saved-%[1]s -- $W/odd $W %[1]s 30 2>/mnt/live-%[1]s.err || echo live-%[1]s: failed with $? >>/mnt/failed\n", name)
		}
	}
	return script.String()
}

// TestLabOdd boots both kernels with deferred stacks, and holds programs whose memory changes
// in rare ways against the truth: live, reports and replay.
func TestLabOdd(t *testing.T) {
	lab, work := needLab(t)
	compileOdd(t, filepath.Join(work, "odd"))
	for _, image := range []string{"hash", "inode"} {
		t.Run(image, func(t *testing.T) {
			out := lab.boot(t, work, image, "", labOddScript(t))
			var sum labSums
			for _, r := range labOdd {
				if labWanted(t, r.name) {
					c := checkLabRun(t, work, out, image, r)
					t.Logf("%s: %v", r.name, c)
					sum.of(&r).add(c)
				}
			}
			for _, name := range labOddSaved {
				if labWanted(t, "saved-"+name) {
					labOddReplay(t, work, out, name)
				}
			}
			t.Logf("%v", &sum)
		})
	}
}

// labOddReplay holds what replay makes of a report and of a saved trace against the truth.
func labOddReplay(t *testing.T, work, out, name string) {
	t.Helper()
	saved := filepath.Join(out, "saved-"+name)
	for _, args := range [][]string{
		{filepath.Join(out, "record-"+name)}, {"--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile)},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"replay", "-q", "--format=json"}, args...), nil, &stdout, &stderr); code != exitOK {
			t.Fatalf("%v: %s", args, &stderr)
		}
		truth := newLabTruth(t, work)
		truth.mayLackID, truth.anywhere, truth.copies = true, true, map[string][]string{"/tmp/odd.so": {"libplug1.so", "libplug2.so"}}
		c := truth.check(name+" replayed", &stdout)
		t.Logf("%s replayed: %v", name, c)
		if c.tagged == 0 || c.right == 0 || c.wrong+c.impossible > 0 {
			t.Errorf("%s: %v", filepath.Base(args[len(args)-1]), c)
		}
	}
}

// compileOdd compiles testdata/live/odd.c as the lab's workloads are.
func compileOdd(t *testing.T, program string) {
	t.Helper()
	compiler := exec.Command("gcc", "-O1", "-fno-omit-frame-pointer", "-momit-leaf-frame-pointer", "-fno-inline", "-fno-optimize-sibling-calls", "-pthread",
		"-Wl,--build-id=sha1", "-o", program, filepath.Join("testdata", "live", "odd.c"), "-ldl")
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
}
