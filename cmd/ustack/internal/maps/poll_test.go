package maps

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap/observed"
	"ustack/filemap/procmap"
	"ustack/render"
)

// TestPollNotes: a dump has a process's mappings when they have changed, and when it was
// read without a change, up to each pause.
func TestPollNotes(t *testing.T) {
	p := &poller{every: 10 * time.Millisecond, of: make(map[int]*polled), dump: render.NewMapsDump(new(bytes.Buffer), time.Unix(0, 0))}
	one := []procmap.Mapping{{Start: 0x1000, End: 0x2000, Perms: procmap.Exec, Inode: 5, Name: "/one"}}
	two := append(one[:1:1], procmap.Mapping{Start: 0x3000, End: 0x4000, Perms: procmap.Exec, Inode: 6, Name: "/two"})
	read := func(ms int64, mappings []procmap.Mapping) {
		p.read(procmap.Head{Time: ms * 1e6, PID: 7, Comm: "x", Exe: "/x"}, mappings)
	}
	for _, ms := range []int64{1000, 1010, 1029} {
		read(ms, one)
	}
	read(1050, one) // after a pause
	read(1060, one)
	read(1070, two)
	if err := p.write(); err != nil {
		t.Fatal(err)
	}
	want := "### t=1.000000000 pid=7 comm=x exe=/x\n" + mappingLines(one) +
		"# read from=1.000000000 until=1.029000000 every=0.020000000\n" +
		"# read from=1.050000000 until=1.060000000 every=0.020000000\n" +
		"### t=1.070000000 pid=7 comm=x exe=/x\n" + mappingLines(two) +
		"# read from=1.070000000 until=1.070000000 every=0.020000000\n"
	if string(p.of[7].text) != want {
		t.Errorf("%s, want\n%s", p.of[7].text, want)
	}
	if p.size == 0 || p.size > len(want) {
		t.Errorf("size %d of %d", p.size, len(want))
	}
}

func mappingLines(mappings []procmap.Mapping) string {
	var b []byte
	for i := range mappings {
		b = append(mappings[i].AppendSaved(b), '\n')
	}
	return string(b)
}

// TestPoll polls this process until a signal comes. The dump is one that replay reads.
func TestPoll(t *testing.T) {
	mine := make(chan os.Signal, 1)
	signal.Notify(mine, unix.SIGINT)
	defer signal.Stop(mine)
	file := filepath.Join(t.TempDir(), "dump.tar")
	done := make(chan error, 1)
	var stderr bytes.Buffer
	go func() {
		j := Job{Save: file, Poll: MinPoll, PIDs: []int{os.Getpid()}}
		done <- j.Run(command.Streams{Out: new(bytes.Buffer), Err: &stderr})
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			data, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(data, []byte("# read from=")) {
				t.Errorf("%v, %d bytes without a note of a reading", err, len(data))
			}
			d, err := observed.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			if pid, ok := d.Process(int32(os.Getpid())); !ok || int(pid) != os.Getpid() {
				t.Errorf("process %d, %v", pid, ok)
			}
			return
		case <-time.After(5 * time.Millisecond):
			if err := unix.Kill(os.Getpid(), unix.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPollNothing: processes that cannot be read at all are an error, and leave no dump.
func TestPollNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.tar")
	j := Job{Save: file, Poll: MinPoll, PIDs: []int{1<<31 - 1}}
	err := j.Run(command.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer)})
	left, _ := filepath.Glob(file + "*")
	if err == nil || len(left) > 0 {
		t.Errorf("%v, left %q", err, left)
	}
}
