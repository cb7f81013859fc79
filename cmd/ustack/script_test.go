package main

// Tests of the program as its users meet it: scripts in testdata/script run it
// as a process of its own, with real files, pipes and terminals.

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/ustack/internal/tracegen"
	"ustack/tracefs/capturetest"
)

// raceOptions is the variable with the options of the race detector, which every
// program of a script gets, too: by default each of them ends a second later.
const raceOptions = "GORACE"

func TestMain(m *testing.M) {
	testscript.Main(cleaned{m}, map[string]func(){"ustack": main})
}

// TestScript runs the scripts. Besides the commands of testscript they have:
//
//	unpack FILE DIR                   unpack a tar.zst
//	exits CODE PROGRAM [ARG...]       run it; it must exit with CODE
//	early N PROGRAM [ARG...]          run it, but close its output after N bytes:
//	                                  it must end soon, and say nothing
//	pauses IN WANT [IN WANT]... -- PROGRAM [ARG...]
//	                                  run it with IN on a pipe that stays open: WANT
//	                                  must come out before more goes in, and nothing
//	                                  more when the pipe ends
//	unescape FILE...                  make \xHH in the files a byte
//	chop N FILE                       cut the last N bytes off
//	compress gzip|zstd FROM TO        compress one file into another one
//	replace OLD NEW FROM TO           copy a file, but change the one place that has OLD
//	without PREFIX FILE               cut the lines off that FILE begins with and that
//	                                  begin with PREFIX
//	lines [-v] REGEXP FROM TO         copy the lines of a file that match, or do not
//	damage N FILE                     change the byte that is the Nth from the end
//	begins FILE WANT N                FILE must begin with the first N bytes of WANT, and
//	                                  be shorter
//	generate BYTES FILE               write a large trace
//	jsonlines FILE                    each line of FILE must be a JSON object with a
//	                                  type, the first one a header, the last one totals
//
// Goldens come from the rules and the specimens in the mailing list, not from
// the program: there is no flag to update them.
func TestScript(t *testing.T) {
	captures, err := filepath.Abs("../../testdata/captures")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CAPTURES", captures)
			if v, ok := os.LookupEnv(raceOptions); ok {
				env.Setenv(raceOptions, v)
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":     scriptExits,
			"early":     scriptEarly,
			"pauses":    scriptPauses,
			"unescape":  scriptUnescape,
			"chop":      scriptChop,
			"compress":  scriptCompress,
			"unpack":    scriptUnpack,
			"replace":   scriptReplace,
			"without":   scriptWithout,
			"lines":     scriptLines,
			"damage":    scriptDamage,
			"begins":    scriptBegins,
			"generate":  scriptGenerate,
			"jsonlines": scriptJSONLines,
		},
		Condition: func(name string) (bool, error) {
			if name != "packagers" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return capturetest.Packagers(), nil
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// scriptArgs stops the script unless a command got at least min arguments and
// no "!".
func scriptArgs(ts *testscript.TestScript, neg bool, args []string, min int, usage string) {
	if neg || len(args) < min {
		ts.Fatalf("usage: %s", usage)
	}
}

// scriptNumber reads an argument.
func scriptNumber(ts *testscript.TestScript, arg string) int {
	n, err := strconv.Atoi(arg)
	ts.Check(err)
	return n
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "exits CODE PROGRAM [ARG...]")
	want := scriptNumber(ts, args[0])
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptPatience is how long a process may take for what should come at once.
const scriptPatience = 30 * time.Second

// scriptCommand prepares a process that is killed when it takes too long. The
// caller starts it and calls stop when it has ended.
func scriptCommand(ts *testscript.TestScript, args []string) (cmd *exec.Cmd, stop func() bool) {
	// The script's own PATH has the program; exec.Command would look in ours.
	cmd = exec.Command("env", args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
	timer := time.AfterFunc(scriptPatience, func() { _ = cmd.Process.Kill() })
	return cmd, timer.Stop
}

func scriptEarly(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "early N PROGRAM [ARG...]")
	n := scriptNumber(ts, args[0])
	var stderr bytes.Buffer
	cmd, stop := scriptCommand(ts, args[1:])
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	if _, err := io.CopyN(io.Discard, out, int64(n)); err != nil {
		ts.Fatalf("reading the first %d bytes: %v", n, err)
	}
	ts.Check(out.Close())
	err = cmd.Wait()
	if !stop() {
		ts.Fatalf("still running %v after its output was closed", scriptPatience)
	}
	if stderr.Len() > 0 {
		ts.Fatalf("stderr: %s", stderr.Bytes())
	}
	// SIGPIPE is how a program in a pipe ends; the shell says nothing then, but
	// has it in its own exit code.
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	piped := ok && (status.Signaled() && status.Signal() == syscall.SIGPIPE || status.ExitStatus() == 128+int(syscall.SIGPIPE))
	if err != nil && !piped {
		ts.Fatalf("ended with: %v", err)
	}
}

// lockedBuffer is written by one goroutine and looked at by another one.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func scriptPauses(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "pauses IN WANT [IN WANT]... -- PROGRAM [ARG...]"
	n := slices.Index(args, "--")
	if neg || n < 2 || n%2 != 0 || n+1 == len(args) {
		ts.Fatalf("usage: %s", usage)
	}
	var stdout, stderr lockedBuffer
	cmd, stop := scriptCommand(ts, args[n+1:])
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	pipe, err := cmd.StdinPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	seen := 0
	for i := 0; i < n; i += 2 {
		want := ts.ReadFile(args[i+1])
		_, err = io.WriteString(pipe, ts.ReadFile(args[i]))
		ts.Check(err)
		for end := time.Now().Add(scriptPatience); len(stdout.String()) < seen+len(want) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if got := stdout.String()[seen:]; got != want {
			ts.Fatalf("after %s:\n%s\nwant:\n%s\nstderr: %s", args[i], got, want, stderr.String())
		}
		seen += len(want)
	}
	ts.Check(pipe.Close())
	err = cmd.Wait()
	stop()
	if after := stdout.String()[seen:]; after != "" {
		ts.Fatalf("after the pipe had ended: %q", after)
	}
	ts.Check(err)
}

var scriptByte = regexp.MustCompile(`\\x[0-9a-f]{2}`)

func scriptUnescape(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "unescape FILE...")
	for _, file := range args {
		text := scriptByte.ReplaceAllStringFunc(ts.ReadFile(file), func(s string) string {
			b, err := strconv.ParseUint(s[2:], 16, 8)
			ts.Check(err)
			return string([]byte{byte(b)})
		})
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o666))
	}
}

func scriptUnpack(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "unpack FILE DIR")
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	ts.Check(err)
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		ts.Check(err)
		name := filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(h.Name))
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(r)
			ts.Check(err)
			ts.Check(os.WriteFile(name, data, 0o600))
		}
	}
}

func scriptChop(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "chop N FILE")
	text := ts.ReadFile(args[1])
	left := len(text) - scriptNumber(ts, args[0])
	if left < 0 {
		ts.Fatalf("%s has %d bytes only", args[1], len(text))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text[:left]), 0o666))
}

func scriptReplace(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 4, "replace OLD NEW FROM TO")
	text := ts.ReadFile(args[2])
	if n := strings.Count(text, args[0]); n != 1 {
		ts.Fatalf("%s has %q %d times", args[2], args[0], n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), []byte(strings.Replace(text, args[0], args[1], 1)), 0o666))
}

func scriptWithout(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "without PREFIX FILE")
	text := ts.ReadFile(args[1])
	for strings.HasPrefix(text, args[0]) {
		_, text, _ = strings.Cut(text, "\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o666))
}

func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "lines [-v] REGEXP FROM TO"
	scriptArgs(ts, neg, args, 3, usage)
	invert := args[0] == "-v"
	if invert {
		args = args[1:]
	}
	scriptArgs(ts, neg, args, 3, usage)
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	var kept strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if pattern.MatchString(strings.TrimSuffix(line, "\n")) != invert {
			kept.WriteString(line)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(kept.String()), 0o666))
}

func scriptDamage(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "damage N FILE")
	text := []byte(ts.ReadFile(args[1]))
	at := len(text) - scriptNumber(ts, args[0])
	if at < 0 || at >= len(text) {
		ts.Fatalf("%s has %d bytes only", args[1], len(text))
	}
	text[at] ^= 0xff
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o666))
}

func scriptBegins(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 3, "begins FILE WANT N")
	got, want, n := ts.ReadFile(args[0]), ts.ReadFile(args[1]), scriptNumber(ts, args[2])
	if len(got) < n || len(got) >= len(want) {
		ts.Fatalf("%d bytes; want %d or more, but not all %d", len(got), n, len(want))
	}
	if diff := truthDiff(want[:n], got[:n]); diff != "" {
		ts.Fatalf("%s", diff)
	}
}

func scriptCompress(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 3, "compress gzip|zstd FROM TO")
	var out bytes.Buffer
	var w io.WriteCloser
	switch args[0] {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zstd":
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		ts.Check(err)
		w = z
	default:
		ts.Fatalf("no such compression: %s", args[0])
	}
	_, err := io.WriteString(w, ts.ReadFile(args[1]))
	ts.Check(errors.Join(err, w.Close()))
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), out.Bytes(), 0o666))
}

func scriptGenerate(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "generate BYTES FILE")
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	_, err = tracegen.Write(f, tracegen.Config{Bytes: int64(scriptNumber(ts, args[0])), Seed: 1})
	ts.Check(errors.Join(err, f.Close()))
}

func scriptJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "jsonlines FILE")
	var types []string
	for i, line := range bytes.SplitAfter([]byte(ts.ReadFile(args[0])), []byte("\n")) {
		if len(line) == 0 {
			break
		}
		var object struct{ Type string }
		if err := json.Unmarshal(line, &object); err != nil || object.Type == "" || line[len(line)-1] != '\n' {
			ts.Fatalf("line %d is no object of ours (%v): %s", i+1, err, line)
		}
		types = append(types, object.Type)
	}
	if len(types) < 2 || types[0] != "header" || types[len(types)-1] != "totals" {
		ts.Fatalf("not from header to totals: %q", types)
	}
}
