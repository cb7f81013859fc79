package procmap

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// The benchmarks compare: in each round all contenders take turns, and the
// ratios are those of the medians. Nothing is asserted about times.

// contest runs contenders in turn and reports each one's median and how many
// times longer it takes than the first.
type contest struct {
	names []string
	runs  []func() (time.Duration, error)
	times [][]time.Duration
}

// add adds a contender that is timed here.
func (c *contest) add(name string, run func() error) {
	c.addTimed(name, func() (time.Duration, error) {
		start := time.Now()
		err := run()
		return time.Since(start), err
	})
}

// addTimed adds a contender that times itself.
func (c *contest) addTimed(name string, run func() (time.Duration, error)) {
	c.names, c.runs = append(c.names, name), append(c.runs, run)
	c.times = append(c.times, nil)
}

func (c *contest) run(b *testing.B) {
	const turn = 20 // runs in a row
	for b.Loop() {
		for i, run := range c.runs {
			runtime.GC() // one's garbage is not the next one's work
			for range turn {
				d, err := run()
				if err != nil {
					b.Fatalf("%s: %v", c.names[i], err)
				}
				c.times[i] = append(c.times[i], d)
			}
		}
	}
	first := median(c.times[0])
	for i, name := range c.names {
		m := median(c.times[i])
		b.ReportMetric(float64(m.Nanoseconds()), name+"-ns")
		if i > 0 {
			b.ReportMetric(float64(m)/float64(first), name+"/"+c.names[0])
		}
	}
	b.ReportMetric(0, "ns/op") // of all together: says nothing
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// benchProcesses are a small process (a cat) and one like a desktop program,
// with 60 libraries.
func benchProcesses(b *testing.B, bench func(b *testing.B, pid int)) {
	b.Run("cat", func(b *testing.B) {
		cat := exec.Command("cat")
		in, err := cat.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cat.Start(); err != nil {
			b.Fatal(err)
		}
		defer cat.Wait()
		defer in.Close()
		time.Sleep(50 * time.Millisecond) // for its dynamic linker
		bench(b, cat.Process.Pid)
	})
	b.Run("60-libraries", func(b *testing.B) {
		bench(b, startHelper(b, "libraries", systemLibraries(b, 60)...).pid)
	})
}

// BenchmarkProcess reads all executable mappings of a process: opened each time
// by all but "open", whose file stays open.
func BenchmarkProcess(b *testing.B) {
	benchProcesses(b, func(b *testing.B, pid int) {
		var c contest
		filter := Filter{Perms: Exec}
		for _, r := range []*Reader{needIoctl(b, Options{Filter: filter}), needText(b, Options{Filter: filter})} {
			var p Process
			c.add(r.Source().String(), func() error { return r.Process(pid, &p) })
		}
		proc, err := procfs.NewProc(pid)
		if err != nil {
			b.Fatal(err)
		}
		c.add("procfs", func() error { _, err := proc.ProcMaps(); return err })
		h, err := needIoctl(b, Options{Filter: filter}).Open(pid)
		if err != nil {
			b.Fatal(err)
		}
		defer h.Close()
		c.add("open", func() error {
			n := 0
			if err := h.Each(func(*Mapping) bool { n++; return true }); err != nil || n == 0 {
				return fmt.Errorf("%d mappings (%w)", n, err)
			}
			return nil
		})
		c.run(b)
	})
}

// BenchmarkAddress finds one address of a process whose memory is open.
func BenchmarkAddress(b *testing.B) {
	benchProcesses(b, func(b *testing.B, pid int) {
		var c contest
		var addr uint64
		for _, r := range []*Reader{needIoctl(b, Options{}), needText(b, Options{})} {
			var p Process
			if err := r.Process(pid, &p); err != nil {
				b.Fatal(err)
			}
			addr = p.Mappings[len(p.Mappings)/2].Start
			h, err := r.Open(pid)
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			c.add(r.Source().String(), func() error {
				if _, ok, err := h.At(addr); !ok || err != nil {
					return fmt.Errorf("not found (%w)", err)
				}
				return nil
			})
		}
		proc, err := procfs.NewProc(pid)
		if err != nil {
			b.Fatal(err)
		}
		c.add("procfs", func() error {
			maps, err := proc.ProcMaps()
			for _, m := range maps {
				if uint64(m.StartAddr) <= addr && addr < uint64(m.EndAddr) {
					return err
				}
			}
			return fmt.Errorf("not found (%w)", err)
		})
		c.run(b)
	})
}

// cWalker is the C program in testdata/walk.c, running.
type cWalker struct {
	in  io.Writer
	out *bufio.Reader
}

// newCWalker builds and starts the program.
func newCWalker(b *testing.B) *cWalker {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Skip("no gcc to build testdata/walk.c with")
	}
	program := filepath.Join(b.TempDir(), "walk")
	if out, err := exec.Command(gcc, "-O2", "-o", program, "testdata/walk.c").CombinedOutput(); err != nil {
		b.Fatalf("building testdata/walk.c: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	return &cWalker{in, bufio.NewReader(out)}
}

// walk makes the program walk once.
func (c *cWalker) walk() (d time.Duration, processes, mappings, ids int, err error) {
	if _, err = c.in.Write([]byte("walk\n")); err != nil {
		return
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return
	}
	var ns int64
	_, err = fmt.Sscan(line, &ns, &processes, &mappings, &ids)
	return time.Duration(ns), processes, mappings, ids, err
}

// BenchmarkMachine reads all executable mappings of all processes with their
// build IDs, each file read anew in each walk, against the C program that makes
// the same ioctls and reads a page of each mapping's file. That one times itself.
func BenchmarkMachine(b *testing.B) {
	peer := newCWalker(b)
	r := needIoctl(b, Options{Filter: Filter{Perms: Exec}, IDs: NewIDs(nil)})
	var c contest
	c.addTimed("C", func() (time.Duration, error) {
		d, _, _, _, err := peer.walk()
		return d, err
	})
	c.add("ustack", func() error {
		_, err := r.Walk(nil, func(*Process, error) error { return nil })
		return err
	})
	c.run(b)
	_, processes, mappings, ids, err := peer.walk()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d processes, %d executable mappings, %d with a build ID", processes, mappings, ids)
}
