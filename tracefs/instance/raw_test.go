package instance

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rawPipe opens the raw pages of an instance.
func rawPipe(t testing.TB, in *Instance, opt RawOptions) *RawPipe {
	t.Helper()
	p, err := in.RawPipe(opt)
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestLiveRaw: pages come out as they are, after a wait, and the end is reported,
// read and mapped.
func TestLiveRaw(t *testing.T) {
	for name, copied := range map[string]bool{"read": true, "mapped": false} {
		t.Run(name, func(t *testing.T) {
			in := configured(t, live(t))
			check(t, in.setBuffer(64))
			testRaw(t, in, rawPipe(t, in, RawOptions{Subbuf: os.Getpagesize(), Copy: copied}), copied)
		})
	}
}

func testRaw(t *testing.T, in *Instance, p *RawPipe, copied bool) {
	cpus := p.CPUs()
	if stats, err := in.Stats(); err != nil || len(stats) != len(cpus) || int(cpus[0]) != stats[0].CPU {
		t.Errorf("CPUs %v, those with statistics: %v (%v)", cpus, stats, err)
	}
	if copied != (p.Mapped() == 0) {
		t.Logf("%d CPUs are mapped", p.Mapped()) // before Linux 6.10
	}
	all := func() (text string) {
		t.Helper()
		if !p.Hold() {
			t.Fatal("it is closed")
		}
		defer p.Release()
		for i := range cpus {
			for same := 0; same < 2; {
				page, fresh, err := p.Next(i)
				check(t, err)
				if !fresh {
					same++
				}
				text += string(page)
			}
		}
		return text
	}
	check(t, in.Start())
	if ready, err := p.Wait(time.Millisecond); ready || err != nil || strings.Contains(all(), "marker") {
		t.Errorf("ready %v (%v) before anything was traced", ready, err)
	}
	mark(t, in, "one marker")
	if ready, err := p.Wait(patience); !ready || err != nil {
		t.Errorf("not ready (%v)", err)
	}
	if text := all(); !strings.Contains(text, "one marker\n") || p.Ended() {
		t.Errorf("ended %v, pages %q", p.Ended(), text)
	}
	if ready, err := p.Wait(time.Millisecond); ready || err != nil {
		t.Errorf("ready %v (%v) after all was read", ready, err)
	}
	mark(t, in, "the last one")
	check(t, in.Stop())
	check(t, p.Rest(patience)) // which takes the kick
	for range 2 {
		if ready, err := p.Wait(-1); !ready || err != nil || !p.Ended() {
			t.Errorf("ready %v (%v), ended %v", ready, err, p.Ended())
		}
	}
	if text := all(); !strings.Contains(text, "the last one\n") {
		t.Errorf("pages %q", text)
	}
	check(t, in.Start())
	if p.Ended() {
		t.Error("ended after another Start")
	}
	check(t, in.Remove())
}

// TestLiveRawClose: closing ends a wait, and all reading.
func TestLiveRawClose(t *testing.T) {
	in := configured(t, live(t))
	p := rawPipe(t, in, RawOptions{Subbuf: os.Getpagesize()})
	check(t, in.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.Wait(-1)
	}()
	time.Sleep(10 * time.Millisecond)
	check(t, p.Close())
	soon(t, "waiting", done)
	if p.Hold() {
		t.Error("it can be held after it was closed")
	}
	if ready, err := p.Wait(-1); !ready || err != nil {
		t.Errorf("waiting on: %v (%v)", ready, err)
	}
	check(t, errors.Join(p.Close(), in.Remove()))
	if _, err := in.RawPipe(RawOptions{}); !errors.Is(err, ErrRemoved) {
		t.Errorf("opening it in an instance that is removed: %v", err)
	}
}

// TestRawOff: a CPU that is off has nothing to read, does not count as ready, and
// is looked at again.
func TestRawOff(t *testing.T) {
	in := configured(t, live(t))
	p := rawPipe(t, in, RawOptions{Subbuf: os.Getpagesize(), Copy: true})
	check(t, p.refused(0, unix.ENODEV))
	if p.allOn() || p.poll[0].Fd >= 0 {
		t.Errorf("it is asked whether it is ready: %+v", p.poll)
	}
	if ready, err := p.Wait(-1); ready || err != nil {
		t.Errorf("ready %v (%v)", ready, err)
	}
	check(t, p.refused(0, unix.EAGAIN))
	if !p.allOn() || int(p.poll[0].Fd) != p.cpus[0].fd {
		t.Errorf("it has come on: %+v", p.poll)
	}
	if err := p.refused(0, unix.EIO); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), "trace_pipe_raw") {
		t.Errorf("error %v", err)
	}
}

func TestNoRaw(t *testing.T) {
	in := create(t, fake(t))
	if _, err := in.RawPipe(RawOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	tree(t, in.Path(), map[string]string{"per_cpu/cpu0/stats": "entries: 0\n"})
	if _, err := in.RawPipe(RawOptions{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "cpu0/trace_pipe_raw") {
		t.Errorf("error %v", err)
	}
}
