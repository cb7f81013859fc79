package live

import (
	"os"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs"
)

// noThreads knows no thread.
type noThreads struct{}

func (noThreads) PID(int, tracefs.Time) (pid int, late, ok bool) { return 0, false, false }

// TestKernelThreads: a thread of the kernel is a process of its own, and one that is unknown
// is of no process.
func TestKernelThreads(t *testing.T) {
	const kthreadd, unused = 2, 1 << 30
	reader, err := procmap.NewReader(procmap.Options{Stat: true})
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := reader.Stat(kthreadd); err != nil || !stat.KernelThread {
		t.Skipf("process %d is not the kernel's here: %v", kthreadd, err)
	}
	p := &Processes{follow: &following{threads: noThreads{}, own: reader}}
	for range 2 {
		if pid, ok := p.Process(kthreadd); !ok || pid != kthreadd {
			t.Errorf("thread %d is of process %d, %v", kthreadd, pid, ok)
		}
		for _, tid := range []int32{unused, int32(os.Getpid())} {
			if pid, ok := p.Process(tid); ok {
				t.Errorf("thread %d is of process %d", tid, pid)
			}
		}
	}
}
