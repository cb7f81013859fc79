//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

var (
	slowdown  = flag.String("slowdown", "", "measure how much slower this futexrate is")
	turns     = flag.Int("turns", 0, "turns of its loop between two futex calls")
	callsEach = flag.Int("calls", 200, "futex calls of a part")
	pairs     = flag.Int("pairs", 200, "how often to measure with the programs and without them")
	copied    = flag.Uint("copied", 0, "bytes of the stack to copy of a long wait; 0 is for the kernel's stacks")
)

// partsEach is how many parts are measured between two changes, of which the median counts.
const partsEach = 15

// TestSlowdown is what ".ci/bpfcost" runs with PAIRS: how much slower a thread is by the programs
// that are attached, from many short runs with and without them, in the order ABBA. So what slows
// the machine down for longer than a run, or for a part of it, does not count.
func TestSlowdown(t *testing.T) {
	if *slowdown == "" {
		t.Skip("not a test: -args -slowdown measures")
	}
	s, err := Open(Options{Filtered: true, MinWait: time.Millisecond, Copy: uint32(*copied)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	load := startLoad(t)
	if err := s.Add(load.pid, Many); err != nil {
		t.Fatal(err)
	}
	of := [...]struct {
		name     string
		programs programs
		ratios   []float64
		each     []float64 // ns a call
	}{{name: "none", programs: none{}}, {name: "empty", programs: new(empty)}, {name: "all", programs: s}}
	var call []float64
	for range *pairs {
		for i := range of {
			p := &of[i]
			a, b := load.run(t), load.with(t, p.programs)
			c, d := load.with(t, p.programs), load.run(t)
			with, without := (b+c)/2, (a+d)/2
			p.ratios = append(p.ratios, with/without-1)
			p.each = append(p.each, (with-without)/float64(*callsEach))
			call = append(call, without/float64(*callsEach))
			load.drain(t, s)
		}
	}
	fmt.Printf("a call every %.0f ns; %d times ABBA, the median and in which interval it is at 95 %%:\n", median(call), *pairs)
	for _, p := range of {
		fmt.Printf("%s: %s %%, %s ns a call\n", p.name, between(p.ratios, 100), between(p.each, 1))
	}
}

// programs can be attached and detached.
type programs interface {
	Start() error
	Stop() error
}

// none is no programs.
type none struct{}

func (none) Start() error { return nil }
func (none) Stop() error  { return nil }

// load is futexrate, waiting for lines.
type load struct {
	pid int
	in  io.Writer
	out *bufio.Reader
}

func startLoad(t *testing.T) *load {
	c := exec.Command(*slowdown, strconv.Itoa(*turns), strconv.Itoa(*callsEach), "parts", "1")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), c.Wait()); err != nil {
			t.Error(err)
		}
	})
	return &load{c.Process.Pid, in, bufio.NewReader(out)}
}

// run returns how many ns of CPU time a part takes: the median of some, after one that does not
// count.
func (l *load) run(t *testing.T) float64 {
	var list []float64
	for i := range 1 + partsEach {
		if _, err := io.WriteString(l.in, "\n"); err != nil {
			t.Fatal(err)
		}
		var all, cpu float64
		if _, err := fmt.Fscanln(l.out, &all, &cpu); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			list = append(list, cpu)
		}
	}
	return median(list)
}

// with is run with programs attached.
func (l *load) with(t *testing.T, p programs) float64 {
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ns := l.run(t)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	return ns
}

// drain reads what has been sent.
func (l *load) drain(t *testing.T, s *Source) {
	for w := new(Wait); ; {
		switch err := s.Next(w, time.Time{}); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		}
	}
}

func median(list []float64) float64 {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// between is the median and the interval that has that of all such runs at 95 %, whatever their
// distribution: the ranks around the middle (the normal approximation of the binomial one).
func between(list []float64, times float64) string {
	list = slices.Sorted(slices.Values(list))
	n := float64(len(list))
	apart := 1.96 * math.Sqrt(n) / 2
	at := func(rank float64) float64 { return times * list[int(min(max(rank, 0), n-1))] }
	return fmt.Sprintf("%.2f (%.2f to %.2f)", at(n/2), at(math.Floor(n/2-apart)), at(math.Ceil(n/2+apart)))
}
