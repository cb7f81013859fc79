package procmap

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/fusetest"
)

// TestHeldExec: a process that is kept in the middle of an exec by a file system in
// user space keeps no reader, and is not waited for twice.
func TestHeldExec(t *testing.T) {
	bothSources(t, Options{Stat: true}, func(t *testing.T, r *Reader) {
		s := fusetest.Start(t, []byte("a file"))
		h := startHelper(t, "held", s.Path)
		t.Cleanup(func() { _ = unix.Unmount(s.Dir, unix.MNT_FORCE|unix.MNT_DETACH) }) // releases it, so that it can be killed
		s.Silence()
		h.in.Close()
		for s.Asked() == 0 { // until it closes the file
			time.Sleep(time.Millisecond)
		}
		r.waits.calls = bounded.New(20 * time.Millisecond)
		var p Process
		for range 3 {
			if err := r.Process(h.pid, &p); !errors.Is(err, errHeld) {
				t.Errorf("the process gives %v", err)
			}
		}
		if len(r.waits.held) != 1 {
			t.Errorf("%d calls have not come back", len(r.waits.held))
		}
		var err error
		waitFor(t, func() bool { // on a busy machine ours may take longer than that, too
			err = r.Process(os.Getpid(), &p)
			return !errors.Is(err, errHeld)
		})
		if err != nil || len(p.Mappings) == 0 {
			t.Errorf("another process: %d mappings, %v", len(p.Mappings), err)
		}
	})
}

// TestHeldExecFile: nor does such a process keep who reads a file that it had mapped
// before, which the kernel looks up anew (map_files_d_revalidate in fs/proc/base.c).
func TestHeldExecFile(t *testing.T) {
	needRoot(t)
	bothSources(t, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)}, func(t *testing.T, r *Reader) {
		h := fusetest.StartHeld(t)
		var p Process
		if err := r.Process(h.PID, &p); err != nil || len(p.Mappings) == 0 {
			t.Fatalf("%d mappings, %v", len(p.Mappings), err)
		}
		open, err := r.Open(h.PID)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		h.Hold(t)
		r.opt.IDs = NewIDs(nil)
		r.opt.IDs.reads = bounded.New(20 * time.Millisecond)
		h.Within(t, 20*bounded.DefaultWait, func() {
			for i := range p.Mappings {
				if m := &p.Mappings[i]; m.Kind == File {
					open.identify(m)
				}
			}
		})
	})
}

// TestHeldExecStat: nor does it keep who asks what the process is.
func TestHeldExecStat(t *testing.T) {
	bothSources(t, Options{Stat: true}, func(t *testing.T, r *Reader) {
		h := fusetest.StartHeld(t)
		h.Hold(t)
		r.waits.calls = bounded.New(20 * time.Millisecond)
		h.Within(t, 20*bounded.DefaultWait, func() {
			s, err := r.Stat(h.PID)
			t.Logf("%+v, %v; it runs %q", s, err, r.Exe(h.PID))
			if !r.hasProgram(h.PID) {
				t.Error("it has no program")
			}
		})
	})
}
