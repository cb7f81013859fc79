package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// Captures against their truth: each frame that has a file is held against the mappings
// that a poller saw and against the machine code, or against the tags of the calls. The
// program gets a capture alone, with the mappings, with the ELF files, and with both.

// sharedCaptures has all captures, also those that are too large to be shipped.
const sharedCaptures = "../../../shared/captures"

// capturesLarge has TestCapturesShared take the captures that testdata has only the
// beginning of: 120 MB of text, four times.
var capturesLarge = flag.Bool("captures-large", false, "with TestCapturesShared: replay the large captures, too")

// captureWays are the ways in which a capture is replayed.
var captureWays = []string{"alone", "--maps", "--sysroot", "both"}

// captureBrief is a sample of them: each dialect, lost records, hostile names, processes
// that the poller missed.
var captureBrief = []string{"hash/byinode_odd", "hash/edge", "hash/odd2", "inode/edge2_raw", "stock/mono"}

// captureInput is a capture, and what replay can get beside it.
type captureInput struct {
	truthCapture
	dialect string // the captures that it counts for
	elf     string // the root directory of the machine's files, "" if there is none
	ways    []string
	rule    captureRule
}

// captureRule says which frames are right.
type captureRule interface {
	// begin takes the stacks of one replay.
	begin(stacks []captureStack)
	// class says how frame k of stack i stands to the truth: "" if its file is wrong,
	// "unknown" if there is no truth for the frame.
	class(i, k int) string
	// unread reports whether the mappings of the task's process were never read, or which
	// process it is of is unknown: the truth cannot place its frames.
	unread(tid int) bool
	// mapped says of which files the process of stack i had code at the offset of frame k,
	// "" if that is unknown.
	mapped(i, k int) string
}

// replay returns the arguments of replay in a way.
func (c captureInput) replay(way string) []string {
	args := slices.Clone(c.args)
	mappings, files := way == "--maps" || way == "both", way == "--sysroot" || way == "both"
	if mappings {
		args = append([]string{"--maps", c.maps}, args...)
	}
	if files {
		args = append([]string{"--sysroot", c.elf}, args...)
	}
	if files && (!mappings || filepath.Base(c.maps) == "spaces.txt.zst") {
		args = append([]string{"--symbols", "--no-lines"}, args...) // files give functions only
	}
	return args
}

// TestCaptures holds the captures of testdata against their truth.
func TestCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	root := truthRoot(t)
	captures := truthCaptures(t)
	if capturetest.Brief() {
		captures = slices.DeleteFunc(listCaptures(t, false), func(c truthCapture) bool { return !slices.Contains(captureBrief, c.name) })
	}
	inputs := labCaptures(t)
	anyone := truthAnyone(t, captures)
	for _, c := range captures {
		if !c.isFields() {
			inputs = append(inputs, polledCapture(c, root, anyone, truthReadMaps(t, c.maps)))
		}
	}
	table := checkCaptures(t, inputs)
	if !capturetest.Brief() {
		table.floors(t)
		table.inManual(t)
	}
}

// TestCapturesShared holds the captures of ../shared against their truth. A capture that
// is shipped has to be the same one here: TestCaptures replays it.
func TestCapturesShared(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(sharedCaptures); err != nil {
		t.Skipf("NOT RUN: there are no captures in %s", sharedCaptures)
	}
	capturetest.NeedLong(t)
	root := truthRoot(t)
	captures := notShipped(t)
	anyone := truthAnyone(t, append(truthCaptures(t), captures...))
	inputs := sharedLabCaptures(t)
	for _, c := range captures {
		in := polledCapture(c, root, anyone, truthReadMaps(t, c.maps))
		if in.dialect += ", trace.dat"; filepath.Base(c.args[0]) != "trace.dat" {
			in.dialect = strings.Replace(in.dialect, "trace.dat", "large", 1)
			if !*capturesLarge {
				continue
			}
		}
		inputs = append(inputs, in)
	}
	table := checkCaptures(t, inputs)
	table.floors(t)
	table.inManual(t)
}

// checkCaptures replays captures in all their ways, and counts the frames.
func checkCaptures(t *testing.T, inputs []captureInput) captureTable {
	t.Helper()
	table := captureTable{}
	code := newCaptureCode()
	for _, c := range inputs {
		for _, way := range c.ways {
			stacks := captureStacks(t, c.replay(way))
			c.rule.begin(stacks)
			wrong := &captureWrong{t: t, name: c.name + ", " + way}
			named := 0
			for i, s := range stacks {
				for k := range s.frames {
					class := frameClass(c.rule, s, i, k)
					counts := table.row(c.dialect, way)
					counts.add(class, !c.rule.unread(s.tid))
					if slices.Contains(captureReasons, class) && class != "unread" {
						counts.mapped[c.rule.mapped(i, k)]++
					}
					switch class {
					case "wrong":
						wrong.add(s, k)
					case "named":
						named++
					}
				}
			}
			code.check(wrong, c, stacks)
			wrong.end()
			if len(stacks) == 0 || way == "both" && named == 0 {
				t.Errorf("%s, %s: %d stacks, no frame is named", c.name, way, len(stacks))
			}
		}
	}
	return table
}

// captureWrong reports wrong frames of one replay, the first ones in full.
type captureWrong struct {
	t    *testing.T
	name string
	n    int
}

func (w *captureWrong) add(s captureStack, k int) {
	if w.n++; w.n <= 5 {
		w.t.Errorf("%s: %s at %s, task %d, frame %d: %+v is wrong", w.name, s.event, s.time, s.tid, k, *s.frames[k])
	}
}

func (w *captureWrong) end() {
	if w.n > 5 {
		w.t.Errorf("%s: %d frames are wrong", w.name, w.n)
	}
}

// frameClass is the class of a frame in the table: named, claimed, stale (a claim that is
// wrong), wrong, or the reason why it has no file.
func frameClass(rule captureRule, s captureStack, i, k int) string {
	f, truth := s.frames[k], "agree"
	if f.Path != "" {
		truth = rule.class(i, k)
	}
	switch {
	case truth == "unknown":
		return truth
	case f.Path == "" && slices.Contains(captureReasons, f.Reason) && rule.unread(s.tid):
		return "unread"
	case f.Path == "":
		return f.Reason
	case f.Trust == "claimed" && truth == "":
		return "stale"
	case f.Trust == "claimed":
		return "claimed"
	case truth == "":
		return "wrong"
	}
	return "named"
}

// notShipped are the captures of ../shared that testdata does not have, or only the
// beginning of.
func notShipped(t *testing.T) []truthCapture {
	t.Helper()
	files, err := filepath.Glob(sharedCaptures + "/*/*/maps.tar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures in %s (%v)", sharedCaptures, err)
	}
	var list []truthCapture
	for _, file := range files {
		dir := filepath.Dir(file)
		c := truthCapture{name: filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir), maps: file}
		for _, name := range []string{"trace_pipe.txt", "trace_pipe.txt.zst", "trace.txt", "trace.dat", "map_trace.txt"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				c.args = append(c.args, filepath.Join(dir, name))
			}
		}
		if !isShipped(t, c) {
			list = append(list, c)
		}
	}
	return list
}

// isShipped reports whether testdata has all of a capture. What it has must be the same.
func isShipped(t *testing.T, c truthCapture) bool {
	t.Helper()
	dir := filepath.Join("../../testdata/captures", c.name)
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	whole := true
	for _, file := range append(slices.Clone(c.args), c.maps) {
		name := strings.TrimSuffix(filepath.Base(file), ".zst")
		shipped := capturetest.Read(t, filepath.Join(dir, strings.Replace(name, "trace_pipe", "trace", 1)+".zst"))
		all := readMaybe(t, file)
		if !bytes.HasPrefix(all, shipped) || len(shipped) == 0 || file == c.maps && len(shipped) != len(all) {
			t.Errorf("%s: %s of testdata is another one", c.name, name)
		}
		whole = whole && len(shipped) == len(all)
	}
	return whole
}

// readMaybe reads a file that is compressed if its name says so.
func readMaybe(t *testing.T, file string) []byte {
	t.Helper()
	if strings.HasSuffix(file, ".zst") {
		return capturetest.Read(t, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
