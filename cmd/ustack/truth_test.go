package main

// Tests against captures of a real kernel: what replay prints has to be what
// the reference model prints, and the files it names have to be files that the
// process had mapped there.

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// truthCapture is one capture of testdata, named dialect/name.
type truthCapture struct {
	name string
	// args are its files as replay gets them. There are two when the names
	// were recorded in a buffer of their own.
	args []string
	maps string // the mappings of its processes, as polled
}

// truthSample are the captures of a sample: each dialect, hostile names, the
// stacks of the kernel, lost records, pages, and columns of processes.
var truthSample = []string{
	"hash/byinode_odd", "hash/edge", "hash/fields", "hash/kstack", "hash/tgid", "inode-v6exact/pipe_live_bug",
	"inode/edge2_raw", "inode/fields", "inode/instance", "inode/lost_raw", "stock/fields", "stock/mono", "stock/pipe_live",
}

// truthCaptures lists the captures that a test takes: a sample unless USTACK_LONG
// is set.
func truthCaptures(t *testing.T) []truthCapture {
	t.Helper()
	return listCaptures(t, capturetest.Brief())
}

// listCaptures lists the captures, or a sample of them, and fails if there are
// none: a test of nothing must not pass.
func listCaptures(t *testing.T, sample bool) []truthCapture {
	t.Helper()
	files, err := filepath.Glob("../../testdata/captures/*/*/trace.txt.zst")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures in testdata (%v)", err)
	}
	var list []truthCapture
	for _, file := range files {
		dir := filepath.Dir(file)
		name := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		if sample && !slices.Contains(truthSample, name) {
			continue
		}
		c := truthCapture{
			name: name,
			args: []string{file},
			maps: filepath.Join(dir, "maps.tar.zst"),
		}
		names := filepath.Join(dir, "map_trace.txt.zst")
		if _, err := os.Stat(names); err == nil {
			c.args = append(c.args, names)
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// isFields reports whether a capture was made with the option "fields", in which the kernel
// leaves out the stacks.
func (c truthCapture) isFields() bool { return strings.HasSuffix(c.name, "/fields") }

// truthRun replays a capture with the program.
func truthRun(t *testing.T, c truthCapture) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append([]string{"replay", "-q"}, c.args...)
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// TestTruthText holds the text output, byte by byte, against the model.
func TestTruthText(t *testing.T) {
	t.Parallel()
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			got := truthRun(t, c)
			var texts []string
			for _, file := range c.args {
				texts = append(texts, string(capturetest.Read(t, file)))
			}
			want := refReplay(texts...)
			if len(want.frames) == 0 {
				t.Fatal("the model finds no frame in this capture")
			}
			if diff := truthDiff(want.text, got); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		})
	}
}

// TestTruthSpecimens holds the program against answers written by hand.
func TestTruthSpecimens(t *testing.T) {
	for _, s := range refSpecimens() {
		t.Run(s.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "trace.txt")
			if err := os.WriteFile(file, []byte(s.in), 0o666); err != nil {
				t.Fatal(err)
			}
			got := truthRun(t, truthCapture{name: s.name, args: []string{file}})
			if diff := truthDiff(s.want, got); diff != "" {
				t.Errorf("%s\ninput:\n%s", diff, s.in)
			}
		})
	}
}

// TestTruthFields: without stacks there is nothing to resolve, and the user has
// to hear which option did that.
func TestTruthFields(t *testing.T) {
	n := 0
	for _, c := range truthCaptures(t) {
		if !c.isFields() {
			continue
		}
		n++
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"replay"}, c.args...)
			if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 1 {
				t.Errorf("run(%q) = %d, want 1", args, code)
			}
			if !regexp.MustCompile(`\bfields\b`).MatchString(stderr.String()) {
				t.Errorf("stderr does not name the option fields: %q", stderr.String())
			}
		})
	}
	if n == 0 {
		t.Fatal("no capture with the option fields")
	}
}

// truthDiff describes the first line in which two texts differ, "" if none.
func truthDiff(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "output line %d differs (want %d lines, got %d)\n", i+1, len(w), len(g))
	for j := max(0, i-4); j < i; j++ {
		fmt.Fprintf(&b, "       %q\n", truthShort(w[j]))
	}
	for _, side := range []struct {
		name  string
		lines []string
	}{{"want", w}, {"got ", g}} {
		if i < len(side.lines) {
			fmt.Fprintf(&b, "%s   %q\n", side.name, truthShort(side.lines[i]))
		} else {
			fmt.Fprintf(&b, "%s   (end of text)\n", side.name)
		}
	}
	return b.String()
}

func truthShort(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// ---------------------------------------------------------------------------
// Mappings

// truthMapping is one line of /proc/PID/maps.
type truthMapping struct {
	start, end, offset uint64
	exec               bool
	inode              string // device and number
	path               string
	comm               string // of the first thread when it was read
}

func (m truthMapping) holds(offset uint64) bool {
	return m.offset <= offset && offset-m.offset < m.end-m.start
}

// truthProcess is all the poller saw of one process.
type truthProcess struct {
	mappings []truthMapping // of all its versions
	programs []string       // executables that were mapped in one of them
}

// truthSpaces is a maps.tar: a text file for each process polled, and the list
// of threads.
type truthSpaces struct {
	processes map[int]*truthProcess
	threads   map[int]int // thread to process
}

// of returns the process of a thread, nil if it was never polled. A thread
// missing from the list may still be the first of a process.
func (s truthSpaces) of(tid int) *truthProcess {
	if pid, ok := s.threads[tid]; ok {
		return s.processes[pid]
	}
	return s.processes[tid]
}

var (
	truthMapsLine = regexp.MustCompile(`^([0-9a-f]+)-([0-9a-f]+) (..)(.). ([0-9a-f]+) (\S+ \d+) *(.*)$`)
	truthMapsHead = regexp.MustCompile(`^### t=\S+ pid=\d+ comm=(.*) exe=(.*)$`)
)

// truthReadMaps reads a maps.tar.
func truthReadMaps(t *testing.T, name string) truthSpaces {
	t.Helper()
	s := truthSpaces{processes: map[int]*truthProcess{}, threads: map[int]int{}}
	r := tar.NewReader(bytes.NewReader(readMaybe(t, name)))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %s: %v", name, h.Name, err)
		}
		base := filepath.Base(h.Name)
		if base == "tids.txt" {
			for line := range strings.Lines(string(text)) {
				var tid, pid int
				if _, err := fmt.Sscan(line, &tid, &pid); err == nil {
					s.threads[tid] = pid
				}
			}
			continue
		}
		if digits, ok := strings.CutSuffix(base, ".maps"); ok {
			pid, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, h.Name, err)
			}
			s.processes[pid] = truthReadProcess(string(text))
		}
	}
	if len(s.processes) == 0 {
		t.Fatalf("%s holds no process", name)
	}
	return s
}

// truthReadProcess reads all versions of the mappings of one process.
func truthReadProcess(text string) *truthProcess {
	p := &truthProcess{}
	comm, exe := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := truthMapsHead.FindStringSubmatch(line); m != nil {
			comm, exe = m[1], m[2]
			continue
		}
		m := truthMapsLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		x := truthMapping{
			start: refHex(m[1]), end: refHex(m[2]), offset: refHex(m[5]),
			exec: m[4] == "x", inode: m[6], path: m[7], comm: comm,
		}
		p.mappings = append(p.mappings, x)
		if x.exec && x.path == exe && !slices.Contains(p.programs, exe) {
			p.programs = append(p.programs, exe)
		}
	}
	return p
}

// truthAnyone puts the mappings of all processes of all captures together.
func truthAnyone(t *testing.T, captures []truthCapture) *truthProcess {
	t.Helper()
	anyone := &truthProcess{}
	seen := map[truthMapping]bool{}
	for _, c := range captures {
		for _, p := range truthReadMaps(t, c.maps).processes {
			for _, m := range p.mappings {
				m.start, m.end = 0, m.end-m.start // where does not matter
				if !seen[m] {
					seen[m] = true
					anyone.mappings = append(anyone.mappings, m)
				}
			}
		}
	}
	return anyone
}

// has reports whether the process had offset of path in a mapping, executable or
// not as asked.
func (p *truthProcess) has(path string, offset uint64, exec bool) bool {
	return slices.ContainsFunc(p.mappings, func(m truthMapping) bool {
		return m.exec == exec && m.path == path && m.holds(offset)
	})
}

// maps reports whether the process had any part of path mapped.
func (p *truthProcess) maps(path string) bool {
	return slices.ContainsFunc(p.mappings, func(m truthMapping) bool { return m.path == path })
}

// ---------------------------------------------------------------------------
// Frames against mappings

// truthStack is one user stack of the output. Its resolved frames are read back
// from the text, so that what is tested is what users see.
type truthStack struct {
	line    int // of the output
	tid     int
	process *truthProcess
	frames  []truthFrame
}

type truthFrame struct {
	line   int
	inner  bool // the first frame: where the task ran, not a return address
	offset uint64
	path   string // as printed: a line feed is \012, as in maps
	build  string
}

var truthFrameLine = regexp.MustCompile(`^ =>  <([0-9a-f]+)> : path=(.*?)(?: build_id=(\{[0-9a-fx,]*\}))?$`)

// truthStacks reads the stacks of an output.
func truthStacks(text string, spaces truthSpaces) []truthStack {
	var stacks []truthStack
	for _, r := range refSplit(text) {
		if r.kind != refDeferred {
			continue
		}
		s := truthStack{line: r.line, tid: r.tid, process: spaces.of(r.tid)}
		n := 0
		for i, line := range strings.Split(r.text, "\n") {
			if !strings.HasPrefix(line, " => ") {
				continue
			}
			n++
			if m := truthFrameLine.FindStringSubmatch(line); m != nil {
				s.frames = append(s.frames, truthFrame{
					line: r.line + i, inner: n == 1, offset: refHex(m[1]), path: m[2], build: m[3],
				})
			}
		}
		stacks = append(stacks, s)
	}
	return stacks
}

// truthClasses are the ways in which a frame can be right although no
// executable mapping of the process has its path and offset. The first that
// fits names the frame.
var truthClasses = []struct {
	name string
	fits func(p *truthProcess, f truthFrame) bool
}{
	{"shared memory with a name", truthNamedMemory},
	{"path as seen in the chroot", truthChroot},
	{"forged or chance return address into data", truthData},
}

// truthAccidents are the classes that wrong files could hide in, with the most
// frames that one capture has of them. They come from chance; a resolver that
// names wrong files would make hundreds of them.
var truthAccidents = map[string]int{
	"forged or chance return address into data": 3,
	"image before or after the polled one":      5,
}

// truthNamedMemory: the kernel's event gives the bare name of a shared
// anonymous mapping, maps has [anon_shmem:NAME].
func truthNamedMemory(p *truthProcess, f truthFrame) bool {
	return !strings.Contains(f.path, "/") && p.has("[anon_shmem:"+f.path+"]", f.offset, true)
}

// truthChroot: the event gives the path as the process sees it, the poller
// stands outside. There is one such program, in one directory of each set of programs.
func truthChroot(p *truthProcess, f truthFrame) bool {
	return f.path == "/bin/jailprog" &&
		(p.has("/opt/jail"+f.path, f.offset, true) || p.has("/srv/h2/jail"+f.path, f.offset, true))
}

// truthData: code without frame pointers leaves any value where a return
// address is looked for, and one program does so on purpose. The file is right
// all the same: the value does point into a mapping of it, though not into
// code. Where the task itself ran, this cannot be.
func truthData(p *truthProcess, f truthFrame) bool {
	return !f.inner && p.has(f.path, f.offset, false)
}

// truthView is all that the frames of one capture are held against.
type truthView struct {
	spaces truthSpaces
	stacks []truthStack
	anyone *truthProcess // the mappings of all processes of all captures
}

// class says how a frame of stack i stands to the mappings of its process, ""
// if it contradicts them.
func (v truthView) class(i int, f truthFrame) string {
	p := v.stacks[i].process
	if p == nil {
		return v.unpolledClass(v.stacks[i].tid, f)
	}
	if p.has(f.path, f.offset, true) {
		return "agree"
	}
	for _, class := range truthClasses {
		if class.fits(p, f) {
			return class.name
		}
	}
	if v.isOtherImage(i, f) {
		return "image before or after the polled one"
	}
	return ""
}

// unpolledClass is for processes without mappings: the poller leaves itself
// out, and some lived less than the 8 ms between its rounds. Of the latter the
// file has to be one that another process did have there, in whatever capture:
// all ran the same programs.
func (v truthView) unpolledClass(tid int, f truthFrame) string {
	if _, listed := v.spaces.threads[tid]; f.path == "/sbin/mapsnap" && !listed {
		return "no maps: the poller itself"
	}
	known := v.anyone.has(f.path, f.offset, true)
	for _, class := range truthClasses {
		known = known || class.fits(v.anyone, f)
	}
	if known {
		return "no maps: never polled"
	}
	return ""
}

// isOtherImage: of a short-lived image of a process, such as a shell's between
// fork and exec, the poller may have seen nothing. Then none of the polled
// mappings is of this file, another process does have this code of the file,
// and the stack is not among those of the polled image, which lie between the
// first and the last stack with a frame in the polled program.
func (v truthView) isOtherImage(i int, f truthFrame) bool {
	p := v.stacks[i].process
	if p.maps(f.path) || !v.codeOfAnother(p, f) {
		return false
	}
	for _, program := range p.programs {
		first, last := v.span(p, program)
		if first >= 0 && first <= i && i <= last {
			return false
		}
	}
	return true
}

// codeOfAnother reports whether another process had the frame in code.
func (v truthView) codeOfAnother(p *truthProcess, f truthFrame) bool {
	for _, other := range v.spaces.processes {
		if other != p && other.has(f.path, f.offset, true) {
			return true
		}
	}
	return false
}

// span finds the first and last stack of a process that has a frame in the
// program, -1 if none has.
func (v truthView) span(p *truthProcess, program string) (first, last int) {
	first, last = -1, -1
	for i, s := range v.stacks {
		if s.process != p || !slices.ContainsFunc(s.frames, func(f truthFrame) bool { return f.path == program }) {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	return first, last
}

// TestTruthMaps holds every resolved frame against the mappings of its process.
// The captures are those whose identifiers name a file; the hash of a kernel
// pointer is reused for other files, which the trace alone does not show.
func TestTruthMaps(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	n := 0
	captures := truthCaptures(t)
	anyone := truthAnyone(t, captures)
	for _, c := range captures {
		dialect, name, _ := strings.Cut(c.name, "/")
		byInode := dialect == "hash" && strings.HasPrefix(name, "byinode")
		if c.isFields() || !byInode && !strings.HasPrefix(dialect, "inode") {
			continue
		}
		n++
		t.Run(c.name, func(t *testing.T) { truthCheckMaps(t, c, anyone) })
	}
	if n == 0 {
		t.Fatal("no capture to check")
	}
}

func truthCheckMaps(t *testing.T, c truthCapture, anyone *truthProcess) {
	v := truthView{spaces: truthReadMaps(t, c.maps), anyone: anyone}
	v.stacks = truthStacks(truthRun(t, c), v.spaces)

	counts := map[string]int{}
	builds := map[string]string{} // of a mapped file
	for i, s := range v.stacks {
		for _, f := range s.frames {
			class := v.class(i, f)
			counts["frames"]++
			counts[class]++
			if class == "" {
				t.Errorf("output line %d, task %d: offset %#x of %q is in no mapping of the process; the stack starts at line %d", f.line, s.tid, f.offset, f.path, s.line)
			}
			if class == "agree" {
				truthCheckBuild(t, builds, s, f)
			}
		}
	}
	for class, most := range truthAccidents {
		if counts[class] > most {
			t.Errorf("%d frames explained by %q, at most %d are", counts[class], class, most)
		}
	}
	if counts["agree"] == 0 {
		t.Errorf("no frame agrees with its process")
	}
	var line []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		line = append(line, fmt.Sprintf("%s: %d", k, counts[k]))
	}
	t.Log(strings.Join(line, ", "))
}

// truthCheckBuild: a path can be two files, one after the other, which mappings
// distinguish by their inodes. Then so must the build IDs: one inode, one build ID.
func truthCheckBuild(t *testing.T, builds map[string]string, s truthStack, f truthFrame) {
	t.Helper()
	inodes := map[string]bool{}
	for _, m := range s.process.mappings {
		if m.exec && m.path == f.path && m.holds(f.offset) {
			inodes[m.inode] = true
		}
	}
	if len(inodes) != 1 {
		return // the process had both
	}
	for inode := range inodes {
		key := inode + " " + f.path
		if old, ok := builds[key]; ok && old != f.build {
			t.Errorf("output line %d: %q, inode %s, has build ID %q, before it had %q", f.line, f.path, inode, f.build, old)
		}
		builds[key] = f.build
	}
}
