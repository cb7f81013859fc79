package render

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/filemap/resolve"
)

// steps are so many steps of a counter whose time has come each time.
func steps(c *Counter, n int) {
	for range n {
		c.next = time.Time{}
		c.Step(&resolve.Totals{Events: 12})
	}
}

// TestCounter: a message takes the place of the counter's line, which comes again after it.
func TestCounter(t *testing.T) {
	var out strings.Builder
	terminal := NewSanitizer(&out)
	c := NewCounter(terminal, false)
	c.Step(&resolve.Totals{}) // too early
	steps(c, 2)
	fmt.Fprintln(terminal, "message")
	fmt.Fprintln(terminal, "another")
	steps(c, 1)
	c.Done()
	c.Done()
	const line = "12 events, 0 stacks, 0 lost "
	clean := "\r" + strings.Repeat(" ", len(line)) + "\r"
	if want := "\r" + line + clean + line + clean + "message\nanother\n\r" + line + clean; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, c := range []*Counter{NewCounter(io.Discard, false), NewCounter(terminal, true)} {
		out.Reset()
		steps(c, 1)
		c.Done()
		if out.String() != "" {
			t.Errorf("%q where nothing is to be shown", out.String())
		}
	}
}

// TestCounterMessages: messages of several goroutines are each a line of their own, whatever
// the counter shows meanwhile.
func TestCounterMessages(t *testing.T) {
	const goroutines, each = 4, 200
	var out strings.Builder
	terminal := NewSanitizer(&out)
	c := NewCounter(terminal, false)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				fmt.Fprintf(terminal, "goroutine %d: %d\n", g, i)
			}
		})
	}
	steps(c, each)
	all.Wait()
	c.Done()
	next := make([]int, goroutines)
	for line := range strings.Lines(out.String()) {
		seen := line[strings.LastIndex(strings.TrimSuffix(line, "\n"), "\r")+1:]
		if seen == "" {
			continue // the counter was last
		}
		var g, i int
		if n, err := fmt.Sscanf(seen, "goroutine %d: %d\n", &g, &i); n != 2 || err != nil || i != next[g] {
			t.Fatalf("%q, of %q", seen, line)
		}
		next[g]++
	}
	for g, n := range next {
		if n != each {
			t.Errorf("%d messages of goroutine %d", n, g)
		}
	}
}
