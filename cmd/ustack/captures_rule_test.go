package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// captureStack is a stack of a replayed capture.
type captureStack struct {
	event, time string   // of the first event that has it
	args        []string // of all
	tid         int
	frames      []*checkFrame
}

// captureStacks replays a capture and returns its stacks, each once, though JSON has a
// deferred stack at each of its events. Equal frames are one.
func captureStacks(t *testing.T, args []string) []captureStack {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"replay", "-q", "--format=json"}, args...), nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr.Bytes())
	}
	var stacks []captureStack
	seen := map[string]*checkFrame{}
	deferred := map[string]int{} // by thread and cookie
	frames := 0
	for line := range bytes.Lines(stdout.Bytes()) {
		head, list, ok := bytes.Cut(line, []byte(`,"stack":[`))
		if !ok {
			continue
		}
		var e struct {
			TS, Name, Args, Cookie string
			PID                    int
		}
		if err := json.Unmarshal(append(head[:len(head):len(head)], '}'), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		key := fmt.Sprint(e.PID, " ", e.Cookie)
		if i, ok := deferred[key]; ok && e.Cookie != "" {
			stacks[i].args = append(stacks[i].args, e.Args)
			continue
		}
		deferred[key] = len(stacks)
		s := captureStack{event: e.Name, args: []string{e.Args}, time: e.TS, tid: e.PID}
		for len(list) > 0 && (list[0] == '{' || list[0] == ',') {
			list = bytes.TrimPrefix(list, []byte(","))
			n := objectLen(list)
			f, ok := seen[string(list[:n])]
			if !ok {
				f = new(checkFrame)
				if err := json.Unmarshal(list[:n], f); err != nil {
					t.Fatalf("%v in %s", err, list[:n])
				}
				seen[string(list[:n])] = f
			}
			if list = list[n:]; !f.Inferred {
				s.frames = append(s.frames, f)
			}
		}
		stacks, frames = append(stacks, s), frames+len(s.frames)
	}
	if totals := fmt.Sprintf(`"frames":%d,`, frames); !bytes.Contains(stdout.Bytes(), []byte(totals)) {
		t.Errorf("%q: the totals are not of %s", args, totals)
	}
	return stacks
}

// objectLen is the length of the JSON object at the beginning of b.
func objectLen(b []byte) int {
	quoted, depth := false, 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == '{':
			depth++
		case !quoted && c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// polledRule holds frames against the mappings that a poller saw.
type polledRule struct {
	truthView
	stacks  []captureStack
	classes map[polledKey]string
}

// polledKey is what the class of a frame depends on.
type polledKey struct {
	process *truthProcess
	tid     int // of a process that was never polled
	frame   *checkFrame
	inner   bool
}

// polledCapture is a capture with the mappings of its processes, as polled.
func polledCapture(c truthCapture, root string, anyone *truthProcess, spaces truthSpaces) captureInput {
	dialect, name, _ := strings.Cut(c.name, "/")
	switch {
	case name == "odd2":
		dialect = name
	case strings.HasPrefix(name, "byinode"):
		dialect = "hash of inode"
	case strings.HasPrefix(dialect, "inode"):
		dialect = "inode"
	}
	rule := &polledRule{truthView: truthView{spaces: spaces, anyone: anyone}}
	return captureInput{truthCapture: c, dialect: dialect, elf: root, ways: captureWays, rule: rule}
}

func (r *polledRule) unread(tid int) bool { return r.spaces.of(tid) == nil }

// mapped looks at all readings of the process.
func (r *polledRule) mapped(i, k int) string {
	s, f := &r.truthView.stacks[i], r.stacks[i].frames[k]
	if s.process == nil || f.Address != 0 {
		return ""
	}
	files, linker := map[string]bool{}, false
	for _, m := range s.process.mappings {
		if m.exec && !strings.HasSuffix(m.inode, " 0") && m.holds(uint64(f.Offset)) {
			files[m.path] = true
			linker = linker || strings.HasPrefix(filepath.Base(m.path), "ld-linux")
		}
	}
	switch {
	case len(files) > 1 && linker:
		return "linker"
	case len(files) > 1:
		return "several"
	}
	return []string{"none", "one"}[len(files)]
}

func (r *polledRule) begin(stacks []captureStack) {
	r.stacks, r.truthView.stacks, r.classes = stacks, nil, map[polledKey]string{}
	for _, s := range stacks {
		view := truthStack{tid: s.tid, process: r.spaces.of(s.tid)}
		for k, f := range s.frames {
			view.frames = append(view.frames, truthFrame{
				inner: k == 0, offset: uint64(f.Offset), path: strings.ReplaceAll(f.Path, "\n", `\012`),
			})
		}
		r.truthView.stacks = append(r.truthView.stacks, view)
	}
}

func (r *polledRule) class(i, k int) string {
	process := r.truthView.stacks[i].process
	key := polledKey{process: process, frame: r.stacks[i].frames[k], inner: k == 0}
	if process == nil {
		key.tid = r.stacks[i].tid
	}
	class, ok := r.classes[key]
	if !ok {
		class = r.find(i, k)
		r.classes[key] = class
	}
	return class
}

// find is class: a raw address lies in the mapping that it says.
func (r *polledRule) find(i, k int) string {
	s, f := &r.truthView.stacks[i], r.stacks[i].frames[k]
	if f.Address == 0 || s.process == nil {
		return r.truthView.class(i, s.frames[k])
	}
	for _, m := range s.process.mappings {
		if at := uint64(f.Address); m.start <= at && at < m.end && m.path == s.frames[k].path && at-m.start+m.offset == uint64(f.Offset) {
			return "agree"
		}
	}
	return ""
}
