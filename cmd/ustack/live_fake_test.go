//go:build linux

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/tracefs/capturetest"
)

// fakeTracefs is a directory that looks like the tracefs of a kernel, with the
// instance that live in this very process will use. It returns the FIFO that is
// its trace_pipe.
func fakeTracefs(t *testing.T, mappingEvent string, options ...string) (dir, pipe string) {
	t.Helper()
	dir = t.TempDir()
	events := []string{"syscalls:sys_enter_futex", "syscalls:sys_exit_futex", "sched:sched_switch"}
	if mappingEvent != "" {
		events = append(events, mappingEvent)
	}
	in := filepath.Join("instances", "ustack-"+strconv.Itoa(os.Getpid()))
	files := map[string]string{"available_events": strings.Join(events, "\n") + "\n"}
	for _, name := range []string{"tracing_on", "current_tracer", "trace_clock", "trace_options", "set_event_pid", "set_event_notrace_pid", "events/enable"} {
		files[filepath.Join(in, name)] = "0\n"
	}
	files[filepath.Join(in, "trace_clock")] = "[local] global mono\n"
	files[filepath.Join(in, "buffer_size_kb")] = "1410\n"
	for _, name := range append(options, "userstacktrace") {
		files[filepath.Join(in, "options", name)] = "0\n"
	}
	for _, name := range events {
		event := filepath.Join(in, "events", strings.ReplaceAll(name, ":", "/"))
		files[filepath.Join(event, "enable")], files[filepath.Join(event, "filter")] = "0\n", "none\n"
	}
	files[filepath.Join(in, "per_cpu", "cpu0", "stats")] = "entries: 0\noverrun: 0\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipe = filepath.Join(dir, in, "trace_pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, pipe
}

// feed writes a text into a FIFO as the kernel would: in pieces.
func feed(t *testing.T, pipe string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	for len(text) > 0 {
		n := min(len(text), 1+rng.IntN(8<<10))
		if _, err := f.Write(text[:n]); err != nil {
			t.Error(err)
			return
		}
		text = text[n:]
	}
}

// TestLiveDeferred: the pipe of a kernel with the series gives what a replay of
// the same text gives.
func TestLiveDeferred(t *testing.T) {
	for _, test := range []struct{ capture, event, says string }{
		{"hash/pipe_default", "file_map:file_map", "deferred stacks, file mapping event file_map"},
		{"inode/pipe_default", "inode_cache:inode_cache", "deferred stacks, file mapping event inode_cache"},
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(test.capture+" "+format, func(t *testing.T) {
				text := capturetest.Read(t, "../../testdata/captures/"+test.capture+"/trace.txt.zst")
				dir, pipe := fakeTracefs(t, test.event, "userstacktrace_delay")
				go feed(t, pipe, text)
				var live, again, stderr bytes.Buffer
				args := []string{"live", "--tracefs", dir, "--format", format}
				if code := run(args, nil, &live, &stderr); code != exitOK {
					t.Fatalf("exit code %d\n%s", code, &stderr)
				}
				if !strings.Contains(stderr.String(), test.says) {
					t.Errorf("stderr does not say %q:\n%s", test.says, &stderr)
				}
				args = []string{"replay", "-q", "--escape", "--format", format}
				if code := run(args, bytes.NewReader(text), &again, &stderr); code != exitOK {
					t.Fatalf("exit code %d\n%s", code, &stderr)
				}
				if !bytes.Equal(live.Bytes(), again.Bytes()) {
					t.Error(firstDifference(live.Bytes(), again.Bytes()))
				}
				if live.Len() == 0 {
					t.Error("live gave nothing")
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "instances", "*")); len(left) > 0 {
					t.Errorf("%q are left", left)
				}
			})
		}
	}
}

// TestLiveReannounced: the kernel is asked to announce again what stays
// unannounced.
func TestLiveReannounced(t *testing.T) {
	dir, pipe := fakeTracefs(t, "file_map:file_map", "userstacktrace_delay")
	head := "            task-7       [000] .....   100.000001: "
	go feed(t, pipe, []byte(head+"sys_futex -> 0x0\n"+head+"cookie=300000001\n"+head+"<user stack unwind>\ncookie=300000001\n =>  <0000000000001234> : 0x77\n"+
		head+"sys_futex -> 0x0\n"+head+"cookie=500000001\n"))
	var out, stderr bytes.Buffer
	if code := run([]string{"live", "--tracefs", dir}, nil, &out, &stderr); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	if !strings.Contains(stderr.String(), "asked the kernel 1 times for all file mapping events again") {
		t.Errorf("%s\n%s", &out, &stderr)
	}
}
