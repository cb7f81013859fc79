//go:build linux

package main

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/callsite"
	"ustack/tracefs"
)

// labEvent is an event as live and replay write it as JSON.
type labEvent struct {
	Type, Comm, TS, Args string
	Name                 string
	PID                  int
	NoStack              string `json:"no_stack"`
	Stack                []labFrame
	End                  string `json:"stack_end"`
}

type labFrame struct {
	Address, Offset, Path, Trust, Reason, Memory, How string
	BuildID                                           string `json:"build_id"`
	Inferred                                          bool
}

// labCounts are what a check against the truth has found.
type labCounts struct {
	tagged, noStack int
	right, wrong    int // frames of tagged stacks that have a file
	impossible      int // frames of any stack: a file, but no code, or no call before it
	frames          int // of any stack, with a file
	ends            int // of programs that end, with a file
	anonymous       int // tagged frames in memory without a file, as it should be
	// unresolved are tagged frames by reason; a claim counts as one, and so does a file that
	// has its path, but not the build ID that the truth has.
	unresolved map[string]int
}

// pathOnly is the reason of frames with the right path and no build ID.
const pathOnly = "path without build ID"

// inFiles is how many of the tagged frames are in files.
func (c *labCounts) inFiles() int {
	all := c.right + c.wrong
	for _, n := range c.unresolved {
		all += n
	}
	return all
}

// taggedFrames is how many frames of tagged stacks were held against the truth.
func (c *labCounts) taggedFrames() int { return c.inFiles() + c.anonymous }

// named is the share of the tagged frames in files that have one.
func (c *labCounts) named() float64 { return float64(c.right) / float64(max(c.inFiles(), 1)) }

func (c *labCounts) add(o *labCounts) {
	c.tagged, c.noStack = c.tagged+o.tagged, c.noStack+o.noStack
	c.right, c.wrong, c.impossible = c.right+o.right, c.wrong+o.wrong, c.impossible+o.impossible
	c.frames, c.anonymous, c.ends = c.frames+o.frames, c.anonymous+o.anonymous, c.ends+o.ends
	if c.unresolved == nil {
		c.unresolved = make(map[string]int)
	}
	for reason, n := range o.unresolved {
		c.unresolved[reason] += n
	}
}

func (c *labCounts) String() string {
	return fmt.Sprintf("%d tagged events, %d without stack; frames: %d right, %d WRONG, %.2f%% named, %d anonymous, unresolved %v; %d frames with a file in all, %d at the end of a program, %d IMPOSSIBLE",
		c.tagged, c.noStack, c.right, c.wrong, 100*c.named(), c.anonymous, c.unresolved, c.frames, c.ends, c.impossible)
}

// labTruth holds stacks against the tags that the workloads put into val3 of
// their futex calls (workloads/*.c of the lab): which program or library made the
// call, by which chain of functions.
type labTruth struct {
	t    testing.TB
	work string // the directory of the workloads
	root string // of the machine's files: the guest has the host's
	// query: processes are asked what they have mapped, and may be gone by then, so
	// that nothing knows a build ID.
	query bool
	// anywhere: stacks are of any instruction, and code without frame pointers leaves values
	// that are no return addresses.
	anywhere bool
	// mayLackID: on a busy machine live looks at a file so late that it takes the build ID
	// away (sideband, seenTooLate): a frame with the right path alone has no name.
	mayLackID bool
	// copies are the programs that a run has at paths of its own.
	copies map[string][]string
	seen   map[string]*labFile
}

type labFile struct {
	*program
	code *os.File
}

func newLabTruth(t testing.TB, work string) *labTruth {
	return &labTruth{t: t, work: work, seen: make(map[string]*labFile)}
}

// file is an ELF file, nil if there is none (any more).
func (l *labTruth) file(path string) *labFile {
	path = strings.TrimSuffix(path, " (deleted)")
	if f, ok := l.seen[path]; ok {
		return f
	}
	l.seen[path] = nil
	if x, err := elf.Open(l.root + path); err == nil {
		x.Close()
		code, err := os.Open(l.root + path)
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { code.Close() })
		l.seen[path] = &labFile{program: readBinary(l.t, l.root+path), code: code}
	}
	return l.seen[path]
}

// place is a frame as it should be: a function of a file, or what memory is
// called that is no ELF file ("" for private memory without a name).
type place struct {
	file, function, memory string
}

// labProgram is the program of each kind of tag, which has the futex word.
var labProgram = map[uint64]string{0x51: "libplug", 0x52: "exe", 0x53: "execstorm", 0x54: "execstorm", 0x55: "jit", 0x56: "deep", 0x57: "tagged", 0x58: "tagged", 0x59: "libplug", 0x5a: "odd"}

var tagged = regexp.MustCompile(`uaddr: (?:0x)?([0-9a-f]+).*val3: (?:0x)?(5[1-9a][0-9a-f]{6})\b`)

// tag is the tag of an event, 0 if it has none. Other calls have registers in
// val3 that were left by a tagged one: their futex is another one.
func (l *labTruth) tag(e *labEvent) uint64 {
	m := tagged.FindStringSubmatch(e.Args)
	if m == nil {
		return 0
	}
	addr, tag := hexValue(l.t, m[1]), hexValue(l.t, m[2])
	f := l.file(l.owner(tag))
	if f == nil {
		l.t.Fatalf("no workload of tag %#x in %s", tag, l.work)
	}
	const page = 0xfff
	for _, s := range f.symbols {
		if s.Name == "word" && s.Value&page == addr&page {
			return tag
		}
	}
	return 0
}

// owner is the file that has the futex word of a tag.
func (l *labTruth) owner(tag uint64) string {
	name, number := labProgram[tag>>24], strconv.FormatUint(tag>>16&15, 10)
	switch tag >> 24 {
	case 0x51, 0x59:
		name += number + ".so"
	case 0x52:
		name += number
	}
	return filepath.Join(l.work, name)
}

// expected are the frames of a tag, innermost first, as far as they are known.
// The function that makes the call has no frame pointer (-momit-leaf-frame-pointer), so
// the kernel skips the one that called it; whole stacks have it.
func (l *labTruth) expected(tag uint64, whole bool) (list []place) {
	in := func(file string, functions ...string) {
		for _, f := range functions {
			list = append(list, place{file: file, function: f})
		}
	}
	own := l.owner(tag)
	switch tag >> 24 {
	case 0x51, 0x59:
		in(own, skipping([]string{"raw_futex", map[bool]string{true: "plug_leaf", false: "plug_wait"}[tag&15 == 1], "plug_mid", "plug_entry"}, whole)...)
		if tag>>24 == 0x59 {
			in(filepath.Join(l.work, "odd"), "call_plugin")
			break
		}
		in(filepath.Join(l.work, "tagstorm"), "call_plugin", "one_round", "thr")
	case 0x52:
		in(own, skipping([]string{"raw_futex", "exe_leaf", "exe_mid", "exe_work", "main"}, whole)...)
	case 0x53:
		in(own, skipping([]string{"raw_futex", "storm_leaf", "churn_files", "main"}, whole)...)
	case 0x54:
		in(own, skipping([]string{"raw_futex", "child_before_exec", "main"}, whole)...)
	case 0x55:
		memory := [...]string{6: "", 7: "[anon:my jit]", 8: "/memfd:jit code", 9: "/dev/zero", 10: "/tmp/jitfile", 11: "/tmp/jitfile"}
		list = append(list, place{memory: memory[tag&15]})
		in(own, "call_jit", "rounds", "main")
	case 0x56:
		in(own, "raw_futex")
		for range tag >> 4 & 0xfffff {
			in(own, "deepr")
		}
		in(own, "main")
	case 0x5a:
		in(own, skipping([]string{"raw_futex", "own_leaf", "own_mid", "own_entry"}, whole)...)
	case 0x57, 0x58: // two bits for each function, the outermost first
		functions := []string{"worker", "handler"}[tag>>24-0x57:][:1]
		for path := tag & 0xffffff; path != 0; path >>= 2 {
			functions = append(functions, []string{"", "fa", "fb", "fc"}[path&3])
		}
		slices.Reverse(functions)
		in(own, append([]string{"tagged_wait"}, functions...)...)
	}
	return list
}

// skipping is a chain of calls as a stack has it: one that is not whole lacks the caller of
// the function that makes the call.
func skipping(calls []string, whole bool) []string {
	if whole {
		return calls
	}
	return append([]string{calls[0]}, calls[2:]...)
}

// check holds the JSON lines of a run against the truth. What is wrong is
// reported, and counted.
func (l *labTruth) check(name string, r io.Reader) *labCounts {
	l.t.Helper()
	c := &labCounts{unresolved: make(map[string]int)}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<22)
	for in.Scan() {
		var e labEvent
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			l.t.Errorf("%s: %v: %.200s", name, err, in.Text())
			continue
		}
		for i := range e.Stack {
			l.possible(c, name, &e, i)
		}
		l.exits(c, name, &e)
		tag := l.tag(&e)
		if tag == 0 || labProgram[tag>>24] == "tagged" && len(e.Stack) > 0 && e.Stack[0].How == "" {
			continue // nothing is known of what frame pointers give where there are none
		}
		c.tagged++
		if len(e.Stack) == 0 {
			c.noStack++
			continue
		}
		l.stack(c, name, &e, tag)
	}
	if err := in.Err(); err != nil {
		l.t.Error(err)
	}
	return c
}

// exits checks the stack of a program that ends: none of its frames is in another one of
// the programs, which have one layout.
func (l *labTruth) exits(c *labCounts, name string, e *labEvent) {
	if !strings.HasSuffix(e.Name, "exit_group") || !strings.HasPrefix(e.Comm, "exe") {
		return
	}
	for i := range e.Stack {
		f := &e.Stack[i]
		if f.Path == "" || f.Trust == "claimed" {
			continue
		}
		own := place{file: filepath.Join(l.work, e.Comm)}
		if program := filepath.Base(f.Path); strings.HasPrefix(program, "exe") && program != e.Comm {
			l.wrong(c, fmt.Sprintf("%s: %s: process %d (%s), frame %d at its end", name, e.TS, e.PID, e.Comm, i), f, own)
		}
		c.ends++
	}
}

// possible checks that a frame with a file is at code, and after a call.
func (l *labTruth) possible(c *labCounts, name string, e *labEvent, i int) {
	f := &e.Stack[i]
	if f.Path == "" || f.Inferred || f.Trust == "claimed" {
		return
	}
	c.frames++
	b := l.file(f.Path)
	if b == nil || b.buildID != f.BuildID && f.BuildID != "" {
		return // a file of the guest's own
	}
	offset := hexValue(l.t, f.Offset)
	why := ""
	if addr, ok := b.address(offset); !ok {
		why = "no code there"
	} else if i > 0 && !l.anywhere && f.How != "signal" && !b.returns(offset) && !strings.HasPrefix(b.function(addr), "runtime.goexit") {
		// (Go makes a goroutine's first function return into runtime.goexit.)
		why = "no call before it"
	}
	if why != "" {
		if c.impossible++; c.impossible < 4 {
			l.t.Errorf("%s: %s: process %d (%s), frame %d: %+v: %s", name, e.TS, e.PID, e.Comm, i, *f, why)
		}
	}
}

// returns reports whether something can return to an offset: a call, a system
// call or a signal handler.
func (b *labFile) returns(offset uint64) bool {
	var code [callsite.Longest]byte
	if _, err := b.code.ReadAt(code[:], int64(offset)-callsite.Longest); err != nil {
		return false
	}
	var next [16]byte
	_, _ = b.code.ReadAt(next[:], int64(offset))
	const syscall = "\x0f\x05"
	return callsite.Ends(b.program.file.Machine, code[:]) || strings.HasSuffix(string(code[:]), syscall) ||
		callsite.Sigreturn(b.program.file.Machine, next[:])
}

// stack checks the frames of a tagged stack.
func (l *labTruth) stack(c *labCounts, name string, e *labEvent, tag uint64) {
	var frames []labFrame
	for _, f := range e.Stack {
		if !f.Inferred {
			frames = append(frames, f)
		}
	}
	for i, want := range l.expected(tag, frames[0].How != "") {
		if i >= len(frames) {
			// Without the frame pointer there is no way out of a function with alloca.
			blocked := frames[0].How == "blocked" && e.End == "unknown-register" && i > 1
			short := frames[0].How != "" && e.End == tracefs.AtCopy.String() && wakes.MatchString(e.Args) // before the copy has grown
			if (len(frames) < 8 || frames[0].How != "") && !cutByKernel(frames) && !blocked && !short {
				c.wrong++
				l.t.Errorf("%s: %s: process %d (%s), tag %#x: the stack ends at frame %d, before %v", name, e.TS, e.PID, e.Comm, tag, i, want)
			}
			return
		}
		l.frame(c, fmt.Sprintf("%s: %s: process %d (%s), tag %#x, frame %d", name, e.TS, e.PID, e.Comm, tag, i), &frames[i], want, i)
	}
}

// cutByKernel reports whether a stack ends where its text was cut.
func cutByKernel(frames []labFrame) bool {
	return len(frames) > 0 && frames[len(frames)-1].Reason == "truncated"
}

// frame checks one frame.
func (l *labTruth) frame(c *labCounts, where string, f *labFrame, want place, i int) {
	private := want.file == "" && !strings.HasPrefix(want.memory, "/")
	switch {
	case f.Path == "" && (private || want.memory == "/dev/zero"): // that is no file of a file system
		if c.anonymous++; want.memory != "" && f.Memory != "" && strings.TrimSuffix(f.Memory, " (deleted)") != want.memory && f.Memory != "[anon]" {
			l.wrong(c, where, f, want)
		}
		return
	case f.Path == "":
		c.unresolved[f.Reason]++
		return
	case f.Trust == "claimed":
		c.unresolved["claimed"]++
		return
	case private, want.file == "" && !strings.HasPrefix(f.Path, want.memory):
		l.wrong(c, where, f, want)
		return
	case want.file == "":
		c.right++
		return
	}
	b := l.file(want.file)
	offset := hexValue(l.t, f.Offset)
	if i > 0 {
		offset--
	}
	addr, ok := b.address(offset)
	path := strings.TrimSuffix(f.Path, " (deleted)")
	switch noID := f.BuildID == ""; {
	case !ok || b.function(addr) != want.function:
		l.wrong(c, where, f, want)
	case !noID && f.BuildID == b.buildID, noID && l.query && path == want.file:
		c.right++
	case noID && l.mayLackID && l.isAt(path, want.file):
		c.unresolved[pathOnly]++
	default:
		l.wrong(c, where, f, want)
	}
}

// isAt reports whether a program or library can lie at a path.
func (l *labTruth) isAt(path, file string) bool {
	return path == file || slices.Contains(l.copies[path], filepath.Base(file)) && filepath.Dir(file) == l.work
}

func (l *labTruth) wrong(c *labCounts, where string, f *labFrame, want place) {
	l.t.Helper()
	if c.wrong++; c.wrong < 6 {
		l.t.Errorf("%s: %+v, want %+v", where, *f, want)
	}
}
