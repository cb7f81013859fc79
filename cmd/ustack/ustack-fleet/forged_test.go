package main

import (
	"math"
	"path/filepath"
	"testing"

	"ustack/cmd/ustack/internal/command"
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

// TestForged: tables that no export has written, with sums of files that are right, are an error.
func TestForged(t *testing.T) {
	more, n := waitOf("pool", 5), int64(1)
	for name, change := range map[string]func(*collector, *part) error{
		"no durations": func(_ *collector, p *part) error {
			_, err := p.sums.Write([]sumRow{{Report: 1, Device: "report-0000000000000001", LockKey: 7, Waits: 1, NS: 5, Weight: 1}})
			return err
		},
		"too few durations": func(_ *collector, p *part) error {
			_, err := p.sums.Write([]sumRow{{Report: 1, Device: "report-0000000000000001", LockKey: *more.LockKey, IsLock: more.IsLock, Waits: 1, NS: 5, Weight: 1}})
			return err
		},
		"negative": func(_ *collector, p *part) error {
			_, err := p.lengths.Write([]durationRow{{LockKey: *more.LockKey, IsLock: more.IsLock, AtMostNS: 5, Waits: -n}})
			return err
		},
		"a device that is not there": func(c *collector, _ *part) error {
			c.device.Device = "other"
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := forged(t, change)
			if _, messages := ran(t, command.Failure, "fleet", "top", dir); messages == "" {
				t.Error("no message")
			}
			if name == "a device that is not there" {
				ran(t, command.Failure, "fleet", "top", "--exact", dir)
				ran(t, command.Failure, "fleet", "causes", dir)
				ran(t, command.Failure, "fleet", "estimate", dir)
			}
		})
	}
}

// TestSumsOfNoNumber: a weight that is no number, as only forged tables have it, has a row of its own.
func TestSumsOfNoNumber(t *testing.T) {
	a, b := waitOf("pool", 5), waitOf("pool", 6)
	a.Weight, b.Weight = math.NaN(), math.NaN()
	var waits int64
	for _, row := range sumsOf([]sampleRow{a, b}) {
		waits += row.Waits
	}
	if waits != 2 {
		t.Errorf("%d waits, want 2", waits)
	}
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

// TestTooMuchOfDevice: reports that all say that they are of one device can have more together than 64
// bits have, which is no reason for another answer about the others.
func TestTooMuchOfDevice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s, p := openPart(t, dir)
	defer s.Close()
	const reports = 1<<10 + 1
	for i := range uint64(reports) {
		c := newCollector()
		c.head["boot_id"] = "one"
		c.device.Waits, c.device.WaitedNS, c.device.Lost = 1, maxSum, 2*maxSum
		if i == 0 {
			c.head["boot_id"] = "other"
			c.device.WaitedNS, c.device.Lost = 5, 6
		}
		c.finish(i+1, "report", now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
	rows, _ := answerOf(t, "devices", dir)
	for i, want := range [][2]string{{"9223372036854774784", "9223372036854774784"}, {"6", "5"}} {
		if row := rows[i+1]; row[6] != want[0] || row[8] != want[1] {
			t.Errorf("%s, want %s", row, want)
		}
	}
}
