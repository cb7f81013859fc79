package completion

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/tracefs/instance"
)

// trace is a command with a flag of each sort.
func trace(args []string, std command.Streams) error {
	fs := command.NewFlags("trace")
	fs.String("format", "text", "`FORMAT` of the output: text, json (one document, see: help), or of stacks, for programs: folded or html (see a, b)")
	fs.String("o", "", "write to `FILE` in place of standard output")
	fs.String("p", "", "trace the process `PID`")
	fs.String("e", "", "trace `EVENT`, wildcards allowed")
	fs.Int("b", 0, "so many `KB`: 10 or more")
	fs.Bool("q", false, "print no totals: none, at all")
	if slices.Contains(args, "--live") {
		fs.Bool("owners", false, "read owners")
		fs.Bool("live", false, "trace")
	}
	return command.Parse(fs, args, "usage: trace\n\n  trace -p 1   # an example\n\n", std.Out)
}

func completer(t *testing.T) *Completer {
	proc := t.TempDir()
	for pid, files := range map[string][2]string{"12": {"a\x00", "nginx\n"}, "120": {"b\x00", "ng\x1b[31m x\n"}, "13": {"", "kthreadd\n"}, "self": {"x", "x"}} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"cmdline", "comm"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(files[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &Completer{
		Commands: []command.Command{{Name: "trace", Summary: "trace now", Run: trace}, {Name: "train", Summary: "not this", Run: trace}},
		Topics:   []string{"trace", "words"},
		Front:    "trace",
		Proc:     proc,
		Events: func() ([]instance.Event, error) {
			return []instance.Event{{System: "sched", Name: "sched_switch"}, {System: "sched", Name: "sched_waking"}, {System: "signal", Name: "x"}}, nil
		},
	}
}

// TestLine completes lines.
func TestLine(t *testing.T) {
	c := completer(t)
	const bash = " \t\n\"'><=;|&(:"
	for _, test := range []struct{ line, breaks, want string }{
		{"ustack", "", ""},
		{"ustack ", "", "help version trace train"},
		{"ustack tra", "", "trace train"},
		{"ustack 12", "", "12 120"},
		{"ustack ng", "", "nginx"},
		{"ustack --", "", "--help --version --"},
		{"ustack help ", "", "trace words train"},
		{"ustack completion ", "", "bash zsh fish"},
		{"ustack trace --", "", "--format"},
		{"ustack trace -", "", "-b -e --format -o -p -q"},
		{"ustack trace --live --", "", "--format --live --owners"},
		{"ustack 12 --ow", "", "--owners"},
		{"ustack trace --format ", "", "text json folded html"},
		{"ustack trace -format ", "", "text json folded html"},
		{"ustack trace --format j", "", "json"},
		{"ustack trace --format=", "", "--format=text --format=json --format=folded --format=html"},
		{"ustack trace --format=j", bash, "json"},
		{"ustack trace -o ", "", Files},
		{"ustack trace -q ", "", Files},
		{"ustack trace --no ", "", Files},
		{"ustack trace --format text x", "", Files},
		{"ustack trace -b ", "", ""},
		{"ustack trace -p 1", "", "12 120"},
		{"ustack trace -p 12,", "", "12,12 12,120"},
		{"ustack trace -e s", "", "sched: signal:"},
		{"ustack trace -e sched:sched_w", "", "sched:sched_waking"},
		{"ustack trace -e sched:sched_w", bash, "sched_waking"},
		{"ustack trace -- --format ", "", Files},
		{"ustack nothing --format ", "", "text json folded html"},
	} {
		var words []string
		for _, one := range c.Line(test.line, test.breaks) {
			words = append(words, one.Word)
		}
		if got := strings.Join(words, " "); got != test.want {
			t.Errorf("%q: %q, want %q", test.line, got, test.want)
		}
	}
}

// TestNoRights: what cannot be read has no candidates.
func TestNoRights(t *testing.T) {
	c := completer(t)
	c.Proc = filepath.Join(c.Proc, "none")
	c.Events = func() ([]instance.Event, error) { return nil, os.ErrPermission }
	for _, line := range []string{"ustack trace -p ", "ustack trace -e "} {
		if list := c.Line(line, ""); len(list) != 0 {
			t.Errorf("%q: %v", line, list)
		}
	}
}

// TestWrite: names of processes are foreign.
func TestWrite(t *testing.T) {
	c := completer(t)
	var out bytes.Buffer
	if err := Write(&out, c.Line("ustack trace -p 120", "")); err != nil || out.String() != "120\tng[31m x\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

// TestHelp: flags of a help have their operands, and what is no flag is none.
func TestHelp(t *testing.T) {
	var help bytes.Buffer
	if err := trace([]string{"--help"}, command.Streams{Out: &help, Err: io.Discard}); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	var got []string
	for _, f := range parseHelp(help.String()) {
		got = append(got, strings.TrimSpace(f.name+" "+f.operand))
	}
	if want := "-b KB,-e EVENT,--format FORMAT,-o FILE,-p PID,-q"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzLine: no line stops the completion.
func FuzzLine(f *testing.F) {
	f.Add("ustack trace --format=j", ":=")
	f.Add("ustack trace -p 1,", "")
	f.Add("ustack -- x", " ")
	c := &Completer{Commands: []command.Command{{Name: "trace", Run: trace}}, Proc: "/none", Front: "trace",
		Events: func() ([]instance.Event, error) { return nil, nil }}
	f.Fuzz(func(t *testing.T, line, breaks string) {
		for _, one := range c.Line(line, breaks) {
			if one.Word != Files && !strings.HasSuffix(line, " ") && one.Word == "" && breaks == "" {
				t.Errorf("%q: an empty word", line)
			}
		}
	})
}
