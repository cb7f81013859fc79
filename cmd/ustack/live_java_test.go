//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

var javaTime = flag.String("java-ms", "2500", "for how many milliseconds TestLiveUnwindsJava traces each of its programs")

// javaWait is a stack of a wait, as far as Java methods are in it.
type javaWait struct {
	comm string
	end  string
	// methods are those of the program's own classes, outermost first.
	methods []string
	// unnamed counts frames in code of the virtual machine without a name, inlined methods.
	unnamed, inlined int
	// application: a frame is in code of a program; unwound: the stack is not the kernel's.
	application, unwound bool
}

// callsWait reports whether a call of futex, as live --format=json has it, can wait.
func callsWait(_, args string) bool {
	waits := []string{"op: 0x80,", "op: 0x89,", "op: 0x189,", "op: 0x109,", "op: 0x0,"}
	return slices.ContainsFunc(waits, func(op string) bool { return strings.Contains(args, op) })
}

// javaWaits are those of the events in the output of --format=json that are waits.
func javaWaits(t *testing.T, text []byte, waits func(name, args string) bool) (list []javaWait) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Name, Comm, Args string
			End              string `json:"stack_end"`
			Stack            []struct {
				unwoundFrame
				Inlined []struct{ Function string }
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if !waits(e.Name, e.Args) {
			continue
		}
		w := javaWait{comm: e.Comm, end: e.End}
		for i := range e.Stack {
			f := &e.Stack[i]
			w.unwound = w.unwound || f.How != ""
			w.application = w.application || f.application()
			if f.Path != "" {
				continue
			}
			if f.Function == "" {
				w.unnamed++
			}
			for _, in := range f.Inlined {
				w.inlined++
				w.add(in.Function)
			}
			w.add(f.Function)
		}
		slices.Reverse(w.methods)
		list = append(list, w)
	}
	return list
}

func (w *javaWait) add(method string) {
	if strings.HasPrefix(method, "Waits") || strings.HasPrefix(method, "Fresh") {
		w.methods = append(w.methods, method)
	}
}

// partOf reports whether a list is a part of another one, with others in between.
func partOf(part, whole []string) bool {
	for _, m := range whole {
		if len(part) > 0 && part[0] == m {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// check checks the methods of a stack against what the program has called. whole: the stack
// has all of them.
func (w *javaWait) check(t *testing.T, truth map[string][]string) (whole bool) {
	t.Helper()
	called, known := truth[w.comm]
	switch {
	case strings.HasPrefix(w.comm, "Fresh"):
		for _, m := range w.methods {
			if strings.HasPrefix(m, "Fresh") && !strings.HasPrefix(m, w.comm+".") {
				t.Errorf("a thread of %s in %v", w.comm, w.methods)
			}
		}
	case !known:
	case !partOf(w.methods, called):
		t.Errorf("%s: %v, but called was %v", w.comm, w.methods, called)
	case w.end != "root" || w.unnamed > 0:
	case !slices.Equal(w.methods, called[:len(w.methods)]): // it may wait for the compiler on the way
		t.Errorf("%s: %v, but called was %v", w.comm, w.methods, called)
	default:
		return len(w.methods) >= len(called)-1 // the last one may not be called
	}
	return false
}

// compileJava compiles Waits.java, and returns the command that runs it.
func compileJava(t *testing.T) []string {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("Java frames are known on x86-64 only")
	}
	needProgram(t, "javac")
	if text, err := exec.Command("java", "-version").CombinedOutput(); err != nil || !bytes.Contains(text, []byte(`version "17`)) {
		t.Skipf("not Java 17 (openjdk-17-jdk-headless): %v %s", err, text)
	}
	dir := t.TempDir()
	if text, err := exec.Command("javac", "-d", dir, filepath.Join("testdata", "live", "Waits.java")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return []string{"java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", dir, "Waits"}
}

// TestLiveUnwindsJava: waits of Java threads have the methods that the program has called,
// interpreted and compiled, and no class that has gone gives its name to another one.
func TestLiveUnwindsJava(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	command := compileJava(t)
	for _, test := range []struct {
		name  string
		extra []string
	}{{"chains", nil}, {"renewed", []string{"renew"}}} {
		t.Run(test.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := slices.Concat([]string{"live", "--unwind=copy", "-b", "8192", "--symbols", "--format=json", "-o", out, "--"}, command, []string{*javaTime}, test.extra)
			live := exec.Command(ustackBinary(t), args...)
			var words bytes.Buffer
			live.Stderr = &words
			text, err := live.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, words.Bytes())
			}
			t.Logf("%s", words.Bytes())
			truth := javaTruth(text)
			if text, err = os.ReadFile(out); err != nil {
				t.Fatal(err)
			}
			checkJava(t, javaWaits(t, text, callsWait), truth)
		})
	}
}

// javaTruth is what the threads of the program have called, outermost first, as it prints that.
func javaTruth(text []byte) map[string][]string {
	truth := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		list := strings.Fields(line)
		truth[list[0]] = list[1:]
	}
	return truth
}

// checkJava checks waits against what the program has called, and returns of how many threads with a
// chain of calls they are, and how many of these reach the root.
func checkJava(t *testing.T, list []javaWait, truth map[string][]string) (chains, ends int) {
	t.Helper()
	var application, root, unwound, whole, fresh, inlined int
	for i := range list {
		w := &list[i]
		if w.application {
			application++
		}
		if w.end == "root" {
			root++
		}
		if _, ok := truth[w.comm]; ok {
			chains++
			if w.unwound {
				unwound++
			}
			if w.end == "root" {
				ends++
			}
		}
		if strings.HasPrefix(w.comm, "Fresh") && len(w.methods) > 0 {
			fresh++
		}
		inlined += w.inlined
		if w.check(t, truth) {
			whole++
		}
	}
	t.Logf("%d waits: %d reach application code, %d the root; %d of threads with a chain of calls, %d of them unwound, %d to the root, %d with exactly its methods; %d of threads of classes that go; %d inlined methods",
		len(list), application, root, chains, unwound, ends, whole, fresh, inlined)
	const few, part = 1000, 20 // a busy machine loses samples, and most of them are of the start
	if unwound > few && (whole*part < unwound || inlined == 0) {
		t.Errorf("only %d stacks have all methods that were called, and %d inlined ones", whole, inlined)
	}
	return chains, ends
}
