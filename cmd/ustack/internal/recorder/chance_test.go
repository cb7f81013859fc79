package recorder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/resolve"
	"ustack/render/record"
	"ustack/tracefs/capturetest"
)

// TestChance reads probabilities, and what happens with them.
func TestChance(t *testing.T) {
	for _, word := range []string{"", "0", "-0.5", "1.1", "NaN", "1e-7", "x"} {
		if c := Chance(0); c.Set(word) == nil {
			t.Errorf("%q is %g", word, float64(c))
		}
	}
	for word, weight := range map[string]string{"1": "", "0.1": "10", "0.03125": "32", "1e-6": "1000000"} {
		var c Chance
		if err := c.Set(word); err != nil {
			t.Error(err)
		}
		got := ""
		if f := c.fields(); f != nil {
			got = f[0].Key + "=" + f[0].Value
			weight = "weight=" + weight
		}
		if got != weight {
			t.Errorf("%s: %q, want %q", word, got, weight)
		}
	}
	const tries = 100_000
	happened := 0
	for range tries {
		if Chance(0.25).Happens() {
			happened++
		}
	}
	if happened < tries/5 || happened > tries*3/10 { // 36 standard deviations away
		t.Errorf("0.25 happens in %d of %d", happened, tries)
	}
	if !Chance(0).Happens() || !Chance(1).Happens() {
		t.Error("what is certain does not happen")
	}
}

// TestRingChance: a trigger has its chance once for each cool-down, and the weight of a report is
// in its head; what a user asks for is certain, and stands for itself.
func TestRingChance(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.zst")
	ropt := RingOptions{MaxFiles: 9, CoolDown: time.Minute, Triggers: []record.Trigger{{Loss: true}}}
	o := NewRing(Options{Name: name, Proc: "/proc", Version: "test", Chance: 1e-6, Reporter: &live.Reporter{Command: "record", Out: new(bytes.Buffer)}}, ropt)
	clock := time.Unix(1000, 0)
	o.now = func() time.Time { return clock }
	if _, err := o.Open(&live.Start{Wake: func(string) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	take := func(why string, reports int) {
		t.Helper()
		if o.trigger(why, nil); o.why == "" == (reports > o.reports) {
			t.Errorf("%s: a report is due: %t", why, o.why != "")
		}
		if _, err := o.Step(new(resolve.Totals)); err != nil || o.reports != reports {
			t.Errorf("%s: %d reports, want %d, %v", why, o.reports, reports, err)
		}
	}
	take("loss", 0)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a report is there: %v", err)
	}
	o.opt.Chance = 1 - 1e-9
	take("loss", 0) // it cools down
	clock = clock.Add(time.Minute)
	take("loss", 1)
	if head := capturetest.Read(t, name); !bytes.Contains(head, []byte("\n# ustack: weight=1.000000001\n")) {
		t.Errorf("%.600s", head)
	}
	clock = clock.Add(time.Minute)
	o.opt.Chance = 1e-6
	take(askedFor, 2)
	if head := capturetest.Read(t, name+".1"); bytes.Contains(head, []byte("weight=")) {
		t.Errorf("%.600s", head)
	}
	if err := o.End(); err != nil {
		t.Fatal(err)
	}
}
