package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// taggedRule holds frames against the tags of the calls of the lab's workloads.
type taggedRule struct {
	t      *testing.T
	chains [][]string // of each stack: the files of its frames, nil if no call has a tag
	stacks []captureStack
}

// labCaptures are the saved live runs of testdata.
func labCaptures(t *testing.T) []captureInput {
	t.Helper()
	files, err := filepath.Glob("../../testdata/lab-live/*/*/trace.txt.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("no live runs in testdata (%v)", err)
	}
	var list []captureInput
	for _, file := range files {
		dir := filepath.Dir(file)
		kind := filepath.Base(filepath.Dir(dir))
		list = append(list, captureInput{
			truthCapture: truthCapture{
				name: "lab-live/" + kind + "/" + filepath.Base(dir), args: []string{file}, maps: filepath.Join(dir, "spaces.txt.zst"),
			},
			dialect: "live, " + kind, ways: []string{"alone", "--maps"}, rule: &taggedRule{t: t},
		})
	}
	return list
}

// sharedLabCaptures are the same runs with the ELF files of their machine.
func sharedLabCaptures(t *testing.T) []captureInput {
	t.Helper()
	list := labCaptures(t)
	for i := range list {
		c := &list[i]
		c.elf = filepath.Join(sharedCaptures, "lab-live/elf")
		c.ways = []string{"--sysroot", "both"}
		isSameRun(t, *c)
	}
	return list
}

// isSameRun checks that ../shared has the bytes of a run of testdata.
func isSameRun(t *testing.T, c captureInput) {
	t.Helper()
	for _, file := range []string{c.args[0], c.maps} {
		name := strings.TrimSuffix(filepath.Base(file), ".zst")
		if string(readMaybe(t, file)) != string(readMaybe(t, filepath.Join(sharedCaptures, c.name, name))) {
			t.Errorf("%s: %s of testdata is another one", c.name, name)
		}
	}
}

func (r *taggedRule) unread(int) bool { return false }

func (r *taggedRule) mapped(int, int) string { return "" }

func (r *taggedRule) begin(stacks []captureStack) {
	r.stacks, r.chains = stacks, make([][]string, len(stacks))
	for i, s := range stacks {
		for _, args := range s.args {
			m := labTag.FindStringSubmatch(args)
			if m == nil {
				continue
			}
			tag, err := strconv.ParseUint(m[1], 16, 64)
			if err != nil {
				r.t.Fatal(err)
			}
			chain := labChain(tag)
			if r.chains[i] != nil && fmt.Sprint(chain) != fmt.Sprint(r.chains[i]) {
				r.t.Errorf("task %d: one stack has the tags of two calls, %v and %v", s.tid, r.chains[i], chain)
			}
			if r.chains[i] = chain; len(s.frames) < len(chain) {
				r.t.Errorf("task %d: %d frames of %v", s.tid, len(s.frames), chain)
			}
		}
	}
}

func (r *taggedRule) class(i, k int) string {
	f := r.stacks[i].frames[k]
	switch {
	case k >= len(r.chains[i]):
		return "unknown"
	case filepath.Base(f.Path) == r.chains[i][k]:
		return "agree"
	}
	return ""
}
