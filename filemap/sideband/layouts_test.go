package sideband

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// TestLayouts: a log has what processes had of their programs and libraries.
func TestLayouts(t *testing.T) {
	h, log := logged()
	rnd := rand.New(rand.NewPCG(1, 2))
	want := make(map[int][]space.Reading)
	for i := range 50 {
		pid, at := 1+rnd.IntN(3), tracefs.Time(i*10)
		list := make([]procmap.Mapping, rnd.IntN(4))
		for k := range list {
			list[k] = randomMapping(rnd)
		}
		h.Layout(pid, list, at)
		want[pid] = append(want[pid], space.Reading{At: at, Mappings: list})
		happen(h, rnd, at)
	}
	if err := h.Complete(600); err != nil {
		t.Fatal(err)
	}
	read, err := Load(space.New(), log)
	if err != nil {
		t.Fatal(err)
	}
	for pid := range 5 {
		got := read.Layouts(pid)
		same := slices.EqualFunc(got, want[pid], func(a, b space.Reading) bool {
			return a.At == b.At && slices.Equal(a.Mappings, b.Mappings)
		})
		if !same {
			t.Errorf("process %d has\n%v\nnot\n%v", pid, got, want[pid])
		}
	}
	if !read.HasLayouts() || h.HasLayouts() {
		t.Errorf("layouts: %v when read, %v when written", read.HasLayouts(), h.HasLayouts())
	}
}

// TestLayoutsRefused: lines that are missing, or no mappings, end the log with their number.
func TestLayoutsRefused(t *testing.T) {
	const mapping = " 1000-2000 r--p 0 08:01 3 0 file - /lib\n"
	for text, want := range map[string]string{
		"layout 0.000000001 7 2\n" + mapping:                                "line 4: unexpected EOF",
		"layout 0.000000001 7 2\n" + mapping + "until 0.000000001\n":        "line 4: 1 mappings instead of 2",
		"layout 0.000000001 7 1\n 2000-1000 r--p 0 08:01 3 0 file - /lib\n": "line 3: ",
		"layout 0.000000001 7 99999999999\n":                                "line 2: ",
		"layout 0.000000001 7\n":                                            "line 2: ",
		"layout 0.000000001 7 0 more\n":                                     "line 2: ",
	} {
		h, err := Load(space.New(), strings.NewReader(logHead+"mono\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if h != nil && h.HasLayouts() {
			t.Errorf("%q: has %v", text, h.Layouts(7))
		}
	}
}

// TestLayoutsBounded: a log cannot have more mappings than maxSavedAreas kept; what comes after
// them is read.
func TestLayoutsBounded(t *testing.T) {
	var log strings.Builder
	log.WriteString(logHead + "mono\n")
	const each = 1 << 12
	for i := range maxSavedAreas/each + 2 {
		fmt.Fprintf(&log, "layout %d.000000000 7 %d\n%s", i, each, strings.Repeat(" 1000-2000 r--p 0 08:01 3 0 file - /lib\n", each))
	}
	log.WriteString("until 99.000000000\n")
	h, err := Load(space.New(), strings.NewReader(log.String()))
	if err != nil || h.Until != 99e9 {
		t.Fatalf("up to %v: %v", h.Until, err)
	}
	if got := len(h.Layouts(7)); got != maxSavedAreas/each {
		t.Errorf("%d layouts are kept, not %d", got, maxSavedAreas/each)
	}
}
