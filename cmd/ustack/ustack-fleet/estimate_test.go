package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
)

// TestEstimate simulates 1,000 devices of which each records with a probability: what all of them
// have waited is within the bounds of the answer at least 95 times of 100.
func TestEstimate(t *testing.T) {
	const rounds, devices, p = 40, 1000, 0.1
	random := rand.New(rand.NewPCG(19, 7))
	within, asked := 0, 0
	for round := range rounds {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(round))
		truth := make(map[string]float64)
		s, part := openPart(t, dir)
		for device := range devices {
			c := newCollector()
			c.head["boot_id"], c.head["begun"], c.head["weight"] = fmt.Sprint("d", device), "then", fmt.Sprint(1/p)
			for i, lock := range []string{"usual", "skewed", "sampled by none"} {
				ns := int64(1e6 * math.Exp(random.NormFloat64()*float64(i)))
				if i == 2 && random.IntN(300) > 0 {
					continue
				}
				truth[lock] += float64(ns)
				c.samples = append(c.samples, waitOf(lock, ns/2), waitOf(lock, ns-ns/2))
			}
			if random.Float64() >= p {
				continue
			}
			c.finish(uint64(device+1), "report", now())
			if err := s.add(part, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := part.finish("part-test"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		for _, row := range estimatesOf(t, dir) {
			low, high := parsed(t, row[1]), math.Inf(1)
			if row[2] != "" {
				high = parsed(t, row[2])
			}
			if asked++; low <= truth[row[6]] && truth[row[6]] <= high {
				within++
			}
			if few := row[6] == "sampled by none"; few != (row[2] == "") {
				t.Errorf("%q: the upper bound is %q", row[6], row[2])
			}
		}
	}
	t.Logf("%d of %d answers have the truth within their bounds", within, asked)
	if within*100 < asked*95 || asked < 2*rounds {
		t.Errorf("%d of %d answers have the truth within their bounds", within, asked)
	}
}

// waitOf is a wait for a lock.
func waitOf(lockName string, ns int64) sampleRow {
	row := sampleRow{Event: futexWait, NS: &ns, Weight: 1}
	row.of(&lock{kind: "mutex", name: lockName, buildID: "ab"}, nil)
	return row
}

func parsed(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// estimatesOf asks for the estimates of a directory.
func estimatesOf(t *testing.T, dir string) [][]string {
	t.Helper()
	var out strings.Builder
	if err := fleetCommand([]string{"estimate", "--format=csv", dir}, command.Streams{Out: &out}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// TestEstimateExact: where all was recorded, the bounds are the total.
func TestEstimateExact(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	for _, row := range estimatesOf(t, dir) {
		if row[0] != row[1] || row[0] != row[2] {
			t.Errorf("%q", row)
		}
	}
}

// TestWeight: the weight of a report is that of its rows; a hostile one is an error.
func TestWeight(t *testing.T) {
	c := newCollector()
	c.head["weight"] = "12.5"
	c.samples = []sampleRow{waitOf("a", 5), {Event: "open", Weight: 3}}
	c.finish(1, "report", now())
	if a, b := c.samples[0].Weight, c.samples[1].Weight; a != 12.5 || b != 37.5 {
		t.Errorf("weights %g and %g", a, b)
	}
	if v := profileOf(c, false).Samples[0].Value; v != 63 { // 62.5
		t.Errorf("a profile has %d", v)
	}
	for _, word := range []string{"", "0.5", "-1", "NaN", "Inf", "1e7", "1e400", "x", "2 3"} {
		c := newCollector()
		c.head["weight"] = word
		if err := c.whole(); err == nil || !strings.Contains(err.Error(), "weight") {
			t.Errorf("%q: %v", word, err)
		}
	}
}
