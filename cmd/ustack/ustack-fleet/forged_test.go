package main

import (
	"path/filepath"
	"testing"
)

// forged makes tables of a report with a wait, which a function changes first.
func forged(t *testing.T, change func(c *collector, p *part) error) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	s, p := openPart(t, dir)
	defer s.Close()
	c := newCollector()
	c.samples = append(c.samples, waitOf("pool", 5))
	c.finish(1, "report", now())
	if err := change(c, p); err != nil {
		t.Fatal(err)
	}
	if err := s.add(p, c); err != nil {
		t.Fatal(err)
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTooMuch: a report with a total that 64 bits do not have is one with the largest, and is no
// reason for another answer about the others.
func TestTooMuch(t *testing.T) {
	dir := forged(t, func(c *collector, _ *part) error {
		*c.samples[0].NS = maxSum
		c.samples[0].Weight = 1e6
		return nil
	})
	for _, question := range []string{"top", "causes", "estimate"} {
		if rows, _ := answerOf(t, question, dir); rows[1][0] != "9223372036854774784" {
			t.Errorf("%s: %s", question, rows)
		}
	}
}
