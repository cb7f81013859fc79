//go:build linux && !device

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/terminaltest"
	"ustack/tracefs/capturetest"
)

// tutorial is a directory in which the commands of the page run.
type tutorial struct {
	t    *testing.T
	dir  string
	env  []string
	runs []transcript
}

// newTutorial builds the programs as the page does: the old one as shopd and, for the
// comparison, as before, the new one as after. Names select what is traced.
func newTutorial(t *testing.T) *tutorial {
	t.Helper()
	for _, program := range []string{"sh", "g++", "objcopy", "grep", "tail"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: the commands of the tutorial need %s", program)
		}
	}
	u := &tutorial{t: t, dir: t.TempDir()}
	topic, _ := help.Find("tutorial")
	u.runs = transcripts(topic.Text)
	u.env = append(os.Environ(), "PATH="+filepath.Dir(ustackBinary(t))+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	source, err := os.ReadFile("testdata/tutorial/shopd.cc")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(u.dir, "shopd.cc"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	build := strings.Join([]string{u.find("g++ ").command, u.find("objcopy --only").command, u.find("objcopy --strip").command}, " && ")
	u.shell(build + " && cp -p shopd before && cp -p shopd.debug old.debug")
	u.shell(strings.Replace(build, "g++ ", "g++ -DFIXED ", 1) + " && cp -p shopd after && mv shopd.debug after.debug && mv old.debug shopd.debug && cp -p before shopd")
	u.shell("objcopy --remove-section .gnu_debuglink after && objcopy --add-gnu-debuglink=after.debug after")
	return u
}

// find returns the command of the page that begins so.
func (u *tutorial) find(begin string) transcript {
	u.t.Helper()
	i := slices.IndexFunc(u.runs, func(tr transcript) bool { return strings.HasPrefix(tr.command, begin) })
	if i < 0 {
		u.t.Errorf("the page has no command %q", begin)
		return transcript{command: "exit 3"}
	}
	return u.runs[i]
}

// shell runs a command in the directory. It returns all that is printed.
func (u *tutorial) shell(command string) string {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	// 1 is what diff returns if there are differences.
	if err != nil && (cmd.ProcessState.ExitCode() != 1 || !strings.Contains(command, "ustack diff")) {
		u.t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// run runs a command of the page, with other words in it, and compares what it prints.
func (u *tutorial) run(begin string, replace ...string) string {
	tr := u.find(begin)
	out := u.shell(strings.NewReplacer(replace...).Replace(tr.command))
	out = strings.ReplaceAll(out, u.dir+"/", "/opt/shop/")
	if missing := unlike(tr.want, out); missing != "" {
		u.t.Errorf("tutorial:%d: %s\nprints\n%s\nwhich has nothing like %q", tr.line, tr.command, out, missing)
	}
	return out
}

// serve starts a program until the end of the test; its log is PROGRAM.log.
func (u *tutorial) serve(program string, args ...string) (pid string) {
	u.t.Helper()
	log, err := os.Create(filepath.Join(u.dir, program+".log"))
	if err != nil {
		u.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(u.dir, program), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// slowest returns the largest p99 of a log, in ms.
func (u *tutorial) slowest(program string) float64 {
	text, err := os.ReadFile(filepath.Join(u.dir, program+".log"))
	if err != nil {
		u.t.Fatal(err)
	}
	most := 0.0
	for _, m := range regexp.MustCompile(`p99 ([0-9.]+) ms`).FindAllSubmatch(text, -1) {
		ms, _ := strconv.ParseFloat(string(m[1]), 64)
		most = max(most, ms)
	}
	return most
}

// TestTutorial runs the commands of the tutorial, with shorter times: each of them prints
// what the page shows, but for numbers, and what the page says of it is so.
func TestTutorial(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	u := newTutorial(t)
	u.serve("shopd", "--period", "2")
	old := u.serve("before", "--period", "0.8", "--fetch", "0.1")
	fixed := u.serve("after", "--period", "0.8", "--fetch", "0.1")
	var all sync.WaitGroup
	var main, wait string
	all.Go(func() { main = u.run("ustack shopd --duration", "10s", "4s") })
	all.Go(func() { wait = u.run("ustack wait", "10s", "4s") })
	all.Go(func() { u.run("ustack record") })
	all.Go(func() { u.shell("ustack " + old + " --json --top 0 --duration 12s -o before.json") })
	all.Go(func() { u.shell("ustack " + fixed + " --json --top 0 --duration 12s -o after.json") })
	u.top()
	all.Wait()

	u.run("tail -n 5")
	if !regexp.MustCompile(`(?m)^  meanwhile .*\bblocked `).MatchString(main) || !strings.Contains(wait, "woken by    upstream-") {
		t.Errorf("not the owner that is blocked, woken by upstream:\n%s\n%s", main, wait)
	}
	u.run("mkdir -p files")
	u.run("ustack needs")
	u.run("cp shopd", "files/opt/shop", "files"+u.dir, "cp ", "mkdir -p files"+u.dir+" && cp ")
	u.run("ustack open")
	if whatIf := u.run("ustack futex -v --what-if"); !regexp.MustCompile(`waits for locks (?:0|[0-9.]+ [mun]s) in place of [0-9.]+ s\n`).MatchString(whatIf) {
		t.Errorf("the waits are not gone without the lock:\n%s", whatIf)
	}
	// A machine that is so busy that the programs stall for other reasons says nothing of them.
	if before, after := u.slowest("before"), u.slowest("after"); before > 300 || after > 80 {
		t.Logf("not compared: besides the stalls of 100 ms requests took %.0f ms before, %.0f ms after", before, after)
		return
	}
	differ := u.run("ustack diff")
	if !regexp.MustCompile(`(?m)^(?:less|gone) mutex shop::price_cache .*(?:-> 0$|-> [0-9.]+ [un]s/s\b|\(-(?:9[0-9]|100) %\)$)`).MatchString(differ) {
		t.Errorf("the stall is not gone:\n%s", differ)
	}
}

// top looks at the screen.
func (u *tutorial) top() {
	u.t.Helper()
	cmd, person, tty := onTerminal(u.t, "top", "-p", "name:shopd")
	screen := terminaltest.Watch(u.t, person)
	startedOn(u.t, cmd)
	screen.Until("mutex shop::price_cache")
	screen.Until("refresher-")
	pressed(u.t, person, "q")
	if err := cmd.Wait(); err != nil {
		u.t.Errorf("top: %v", err)
	}
	tty.Close()
	screen.Rest()
}

// unlike returns the first line of a transcript that has nothing like it in an output, in
// the order of the transcript, "" if all have.
func unlike(want []string, output string) string {
	got := outline(strings.Split(output, "\n"))
	for _, line := range outline(want) {
		i := slices.IndexFunc(got, func(s string) bool { return strings.HasPrefix(s, line) })
		if i < 0 {
			return line
		}
		got = got[i+1:]
	}
	return ""
}

// What varies from run to run: numbers with their units, addresses, build IDs, lists after
// their first element, and the names of functions that the C library has, or has not.
var (
	labelled = regexp.MustCompile(`^  (?:[a-z][a-z 0-9]{1,11}  +\S|[0-9]+ s: )`)
	varying  = []struct {
		pattern *regexp.Regexp
		by      string
	}{
		{regexp.MustCompile(`….*`), ""},
		{regexp.MustCompile(`\b(?:0x[0-9a-f]+|[0-9a-f]{40})\b`), "#"},
		{regexp.MustCompile(`(^|[\s(-])[-+<]?[0-9]+(?:\.[0-9]+)?(?: ?(?:(?:ns|us|ms|s)\b(?:/s)?|%))?`), "${1}#"},
		{regexp.MustCompile(`\b(lock|wait|hold|thread)s\b`), "$1"},
		{regexp.MustCompile(`^(  (?:waiting|holding|woken by) +\S+) .*`), "$1"},
		{regexp.MustCompile(`^(  (?:held for|meanwhile|releasing) ).*`), "$1"},
		{regexp.MustCompile(`^(  in the end .*) at .*`), "$1"},
		{regexp.MustCompile(`^ +at (?:__libc_)?(?:recv|send)\b.*`), ""},
		{regexp.MustCompile(`^(?:less|gone) (mutex \S+).*`), "less or gone $1"},
		{regexp.MustCompile(`^(?:Differ:|     p99 ).*`), ""},
		{regexp.MustCompile(`(#.*?), .*`), "$1"},
		{regexp.MustCompile(`\s+`), " "},
	}
)

// outline returns the lines of an output without what varies; wrapped lines are one.
func outline(lines []string) (out []string) {
	for _, line := range lines {
		if n := len(out) - 1; n >= 0 && strings.HasPrefix(line, "  ") && len(line) > 2 && line[2] != ' ' && !labelled.MatchString(line) {
			out[n] += line[1:]
			continue
		}
		out = append(out, line)
	}
	for i, line := range out {
		for _, v := range varying {
			line = v.pattern.ReplaceAllString(line, v.by)
		}
		out[i] = strings.TrimSpace(line)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// TestTutorialUnlike: other names are not like those of a transcript, other numbers are.
func TestTutorialUnlike(t *testing.T) {
	want := []string{
		"3.35 s waited for 1 lock, by 4 threads in 10.0 s of trace; 36.7 s of other",
		"  waiting at 1 condition variable, join or parked thread",
		"Most: mutex cache (0x560cff4312a0) in shopd, process 312, 3.35…",
		"  waiting     handler-318 25 %, handler-317 25 %",
		"              at Cache::lookup(int) shopd.cc:72 < shop::hand…",
		"…",
	}
	got := `ustack: 3 events
17 s waited for 2 locks, by 4 threads in 9.81 s of trace; 6.7 s of other waiting
  at 2 condition variables
Most: mutex cache (0x66) in shopd, process 12345, 17 s in 3 waits (99 % of all)
  waiting     handler-3 <1 %
              at Cache::lookup(int) shopd.cc:72 < shop::handle() < main
  holding     refresher-5
`
	if line := unlike(want, got); line != "" {
		t.Errorf("nothing like %q", line)
	}
	for _, change := range [][2]string{
		{"mutex cache", "mutex queue"}, {"in shopd", "in sh"}, {"handler-3", "arrivals-3"}, {"lookup", "look"}, {"cc:72", "cc:75"}, {"waited for", "of"},
	} {
		if unlike(want, strings.Replace(got, change[0], change[1], 1)) == "" {
			t.Errorf("%s is like %s", change[1], change[0])
		}
	}
}

// TestTutorialSource: the code of the page is in the source, and the lines that the page
// names are what it says.
func TestTutorialSource(t *testing.T) {
	topic, _ := help.Find("tutorial")
	text, err := os.ReadFile("testdata/tutorial/shopd.cc")
	if err != nil {
		t.Fatal(err)
	}
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	source, blocks := words(string(text)), 0
	for rest := topic.Text; ; blocks++ {
		_, after, found := strings.Cut(rest, "\n    void ")
		if !found {
			break
		}
		code, after, _ := strings.Cut(after, "\n    }\n")
		if !strings.Contains(source, words("void "+code+"\n}")) {
			t.Errorf("not in the source: %s", code)
		}
		rest = after
	}
	if blocks != 2 {
		t.Errorf("%d functions, want the old and the new one", blocks)
	}
	lines, named := bytes.Split(text, []byte("\n")), 0
	for function, want := range map[string]string{`lookup\(int\)`: "guard(mutex)", `refresher\([^)]*\)`: "price_cache.refresh(upstream)"} {
		for _, m := range regexp.MustCompile(function+` shopd\.cc:([0-9]+)`).FindAllStringSubmatch(topic.Text, -1) {
			named++
			if n, _ := strconv.Atoi(m[1]); n < 1 || n > len(lines) || !bytes.Contains(lines[n-1], []byte(want)) {
				t.Errorf("line %s is not %s", m[1], want)
			}
		}
	}
	if named < 3 || !strings.Contains(topic.Text, "Line 194 is `price_cache.refresh(upstream)`") {
		t.Errorf("%d lines are named", named)
	}
}
