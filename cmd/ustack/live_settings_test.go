//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/instance"
)

// disturbed traces a program for some seconds while another user writes settings
// of the instance.
func disturbed(t *testing.T, work, source string, write func(dir string)) (out string, stderr string) {
	t.Helper()
	cmd := exec.Command(ustackBinary(t), "live", "--format=json", "--source="+source, "--", work, "sleeper", "3")
	var errs bytes.Buffer
	begun := make(chan struct{})
	text := &awaited{word: []byte(`"stack":[`), seen: sync.OnceFunc(func() { close(begun) })}
	cmd.Stdout, cmd.Stderr = text, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Error("no stack comes")
	}
	root, err := instance.Find("")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	write(filepath.Join(root.Path(), "instances", "ustack-"+strconv.Itoa(cmd.Process.Pid)))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	noInstance(t, cmd.Process.Pid)
	return text.text.String(), errs.String()
}

// otherUser writes a control file as another user does: it is opened for writing from
// the beginning, which counts as a write by itself, as with the > of a shell. If we
// have put the setting back before the value comes, our value overwrites it, and all
// that is known is that the file was written.
func otherUser(t *testing.T, dir, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
		t.Error(err)
	}
}

// Where another user changes a setting of our instance there is a gap, and what
// comes after it is right.
func TestLiveSettings(t *testing.T) {
	capturetest.NeedLong(t)
	tr, work := workload(t)
	both := []string{sourceText, sourceBinary}
	for _, test := range []struct {
		name    string
		sources []string
		write   func(dir string)
		want    string
		on      bool // it goes on
		// plain is what is reported instead if our own value is there again, see
		// otherUser.
		plain string
	}{
		{"clock", both, func(dir string) { otherUser(t, dir, "trace_clock", "counter") }, "trace_clock (mono to counter)", true, "trace_clock"},
		{"clock-twice", both, func(dir string) {
			otherUser(t, dir, "trace_clock", "local")
			otherUser(t, dir, "trace_clock", "mono")
		}, "trace_clock", true, ""},
		{"layout", both, func(dir string) { otherUser(t, dir, "options/context-info", "0") }, "trace_options (context-info to nocontext-info)", true, "options/context-info"},
		{"emptied", both, func(dir string) { otherUser(t, dir, "trace", "") }, "trace", true, ""},
		{"off-on", both, func(dir string) {
			otherUser(t, dir, "tracing_on", "0")
			time.Sleep(time.Second)
			otherUser(t, dir, "tracing_on", "1")
		}, "tracing_on (1 to 0)", true, ""},
		{"off", both, func(dir string) { otherUser(t, dir, "tracing_on", "0") }, "tracing_on (1 to 0)", false, ""},
		{"buffer", both[:1], func(dir string) { otherUser(t, dir, "buffer_size_kb", "777") }, "buffer_size_kb (", true, "buffer_size_kb"},
		{"events", both, func(dir string) { otherUser(t, dir, "events/syscalls/sys_enter_futex/enable", "0") },
			"events/syscalls/sys_enter_futex/enable", true, ""},
	} {
		for _, source := range test.sources {
			t.Run(test.name+"/"+source, func(t *testing.T) {
				t.Parallel() // each has an instance of its own, and waits for most of its time
				out, stderr := disturbed(t, work, source, test.write)
				before, after, ok := strings.Cut(out, `"##### ustack: another user has written `)
				want := test.want
				if test.plain != "" && !strings.HasPrefix(after, want) {
					want = test.plain
				}
				if !ok || !strings.HasPrefix(after, want) || !strings.Contains(before, `{"type":"lost","cpu":0}`) {
					t.Errorf("no gap for %s", want)
				}
				if !strings.Contains(stderr, "another user has written "+want) || !strings.Contains(stderr, " gaps in the trace, ") {
					t.Errorf("it is not reported\n%s", stderr)
				}
				was, is := waitStacks(t, tr, before), waitStacks(t, tr, after)
				if was < 50 || test.on != (is > 50) {
					t.Errorf("%d stacks before, %d after\n%s\n%s", was, is, stderr, after[:min(len(after), 3000)])
				}
			})
		}
	}
}

// waitStacks counts the stacks of waiting threads, which must all be right.
func waitStacks(t *testing.T, tr *truth, lines string) (n int) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e liveEvent
		if json.Unmarshal([]byte(line), &e) != nil || len(e.Stack) == 0 {
			continue // the line that was cut
		}
		names := tr.chain(&e)
		if names[0] != waits[0] {
			continue
		}
		if want := append(slices.Clone(waits), "main"); len(names) < len(want) || !slices.Equal(names[:len(want)], want) {
			t.Errorf("stack %v: %s", names, line)
		}
		n++
	}
	return n
}
