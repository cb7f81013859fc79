package space

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"ustack/filemap/procmap"
	"ustack/tracefs/capturetest"
)

// TestRefresh goes over the machine, with a process that comes, executes
// another program and ends.
func TestRefresh(t *testing.T) {
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil), Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	script := filepath.Join(t.TempDir(), "x.sh")
	if err := os.WriteFile(script, []byte("echo ready; read x; exec cat"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err) // until then it maps its libraries
	}
	pid := cmd.Process.Pid
	comm := func() string {
		if v := s.Space(pid).last(); v != nil {
			return v.Comm
		}
		return ""
	}
	refresh := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			c, err := s.Refresh(r, Monotonic)
			if err != nil {
				t.Fatal(err)
			}
			if comm() == want {
				t.Logf("%+v", c)
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the process is %q, want %q", comm(), want)
			}
		}
	}
	refresh("sh")
	self := os.Getpid()
	mine := s.Space(self)
	if mine.last() == nil || mine.last().StartTime == 0 {
		t.Fatalf("we ourselves are %+v", mine)
	}
	// Our own code, by its address.
	pc, _, _, _ := runtime.Caller(0)
	if p, ok := s.Lookup(self, uint64(pc), Monotonic()); !ok || p.Late || filepath.Base(p.Mapping.File.Name) != "space.test" {
		t.Errorf("our code is in %+v, %v", p, ok)
	}
	before := s.Space(pid)
	refresh("sh")
	if s.Space(pid) != before {
		t.Errorf("nothing changed, but\n%+v\nbecame\n%+v", before, s.Space(pid))
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	refresh("cat")
	versions := s.Space(pid).Versions()
	if last := versions[len(versions)-1]; !last.Fresh || last.StartTime != versions[0].StartTime {
		t.Errorf("after exec: %+v", versions)
	}
	in.Close()
	cmd.Wait()
	refresh("")
	if !slices.ContainsFunc(s.Space(pid).Versions(), func(v Version) bool { return v.Comm == "cat" && v.To != Forever }) {
		t.Errorf("after its end: %+v", s.Space(pid).Versions())
	}
	var p procmap.Process
	if err := s.RefreshProcess(r, self, &p, Monotonic()); err != nil {
		t.Error(err)
	}
	if err := s.RefreshProcess(r, pid, &p, Monotonic()); err == nil {
		t.Error("a process that has ended can be read")
	}
}

// TestRefreshUnderLoad: goroutines with a Reader each refresh the same spaces.
func TestRefreshUnderLoad(t *testing.T) {
	capturetest.SkipShort(t)
	ids := procmap.NewIDs(nil)
	s := New()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: ids, Stat: true})
			if err != nil {
				t.Error(err)
				return
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Refresh(r, Monotonic); err != nil {
					t.Error(err)
					return
				}
				s.Expire(Monotonic() - 1e8)
			}
		})
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if err := exec.Command("sh", "-c", "true; (true)").Run(); err != nil {
			t.Fatal(err)
		}
		pc, _, _, _ := runtime.Caller(0)
		if p, ok := s.Lookup(os.Getpid(), uint64(pc), Monotonic()); ok && filepath.Base(p.Mapping.File.Name) != "space.test" {
			t.Fatalf("our code is in %+v", p)
		}
	}
	close(stop)
	wg.Wait()
}

func BenchmarkRefresh(b *testing.B) {
	r, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil), Stat: true})
	if err != nil {
		b.Fatal(err)
	}
	s := New()
	for b.Loop() {
		if _, err := s.Refresh(r, Monotonic); err != nil {
			b.Fatal(err)
		}
	}
}
