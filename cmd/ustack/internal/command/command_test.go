package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain: each kind of error has its exit code, and its message or none.
func TestMain(t *testing.T) {
	broken := fmt.Errorf("writing the output: %w", unix.EPIPE)
	for _, test := range []struct {
		name    string
		err     error
		stream  bool
		code    int
		message string
	}{
		{"success", nil, false, OK, ""},
		{"help", UsageError(flag.ErrHelp), false, OK, ""},
		{"usage", UsageError(errors.New("no FILE")), false, Usage, "ustack some: no FILE\n"},
		{"two usage errors", UsageError(errors.Join(errors.New("a"), errors.New("b"))), true, Usage, "ustack some: a\nustack some: b\n"},
		{"joined errors", errors.Join(errors.New("a"), errors.Join(errors.New("b"), fmt.Errorf("c: %w, %w", broken, broken))), false, Failure,
			"ustack some: a\nustack some: b\nustack some: c: writing the output: broken pipe, writing the output: broken pipe\n"},
		{"failure", errors.New("no trace"), true, Failure, "ustack some: no trace\n"},
		{"stream without a reader", errors.Join(errors.New("first"), broken), true, OK, ""},
		{"file without a reader", broken, false, Failure, "ustack some: writing the output: broken pipe\n"},
		{"exit code", fmt.Errorf("replaying: %w", Exit(4)), true, 4, ""},
		{"exit code of success", Exit(OK), true, OK, ""},
	} {
		c := Command{Name: "some", Stream: test.stream, Run: func([]string, Streams) error { return test.err }}
		var out, errs bytes.Buffer
		code := c.Main(nil, Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != test.code || errs.String() != test.message || out.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, want %d, %q", test.name, code, errs.String(), test.code, test.message)
		}
	}
}

// TestParse: help goes to standard output with the flags, and wrong flags print nothing.
func TestParse(t *testing.T) {
	const help = `usage: some

  --duration TIME
    	stop after this TIME
  --format FORMAT
    	FORMAT of the output (default "text")
  -n N
    	N times (default 3)
  --percent float
    	at most
  -q	be quiet
`
	for _, test := range []struct {
		args []string
		out  string
		err  string
	}{
		{[]string{"-q", "--duration=2s"}, "", ""},
		{[]string{"-q=1"}, "", ""},
		{[]string{"--help"}, help, "flag: help requested"},
		{[]string{"-n", "5", "--help"}, help, "flag: help requested"},
		{[]string{"--none"}, "", "unknown flag --none"},
		{[]string{"-x"}, "", "unknown flag -x"},
		{[]string{"--fromat=x"}, "", "unknown flag --fromat (did you mean --format?)"},
		{[]string{"--dur", "1s"}, "", "unknown flag --dur (did you mean --duration?)"},
		{[]string{"--quiet"}, "", "unknown flag --quiet (did you mean -q?)"},
		{[]string{"--event", "x"}, "", "unknown flag --event"},
		{[]string{"--\x1b[2J"}, "", `unknown flag "--\x1b[2J"`},
		{[]string{"--duration"}, "", "--duration needs a value"},
		{[]string{"-n"}, "", "-n needs a value"},
		{[]string{"--duration", "1"}, "", `--duration takes a time such as 10s or 500ms, not "1" (did you mean 1s?)`},
		{[]string{"--duration", `a"b`}, "", `--duration takes a time such as 10s or 500ms, not "a\"b"`},
		{[]string{"-n", "many"}, "", `-n takes a whole number, not "many"`},
		{[]string{"--percent", "x"}, "", `--percent takes a number, not "x"`},
		{[]string{"-q=perhaps"}, "", `-q takes true, false or nothing, not "perhaps"`},
		{[]string{"-q", "more"}, "", `unexpected argument "more"`},
	} {
		fs := NewFlags("some")
		fs.Bool("q", false, "be quiet")
		fs.Int("n", 3, "`N` times")
		fs.Float64("percent", 0, "at most")
		fs.Duration("duration", 0, "stop after this `TIME`")
		fs.String("format", "text", "`FORMAT` of the output")
		var out bytes.Buffer
		err := ParseOnly(fs, test.args, "usage: some\n\n", &out)
		if out.String() != test.out || fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
			t.Errorf("%q: %q, %v", test.args, out.String(), err)
		}
	}
}
