package command_test

import (
	"io"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
)

// TestUnset: a flag that makes something false, that can be said to be false itself.
func TestUnset(t *testing.T) {
	for arg, want := range map[string]bool{"": true, "--no-x": false, "--no-x=false": true, "--no-x=1": false} {
		var x bool
		fs := command.NewFlags("test")
		command.Unset(fs, &x, "no-x", "no x")
		args := []string{arg}
		if arg == "" {
			args = nil
		}
		if err := fs.Parse(args); err != nil || x != want {
			t.Errorf("%q: %v, %v", arg, x, err)
		}
	}
	var x bool
	fs := command.NewFlags("test")
	command.Unset(fs, &x, "no-x", "no x")
	if fs.Parse([]string{"--no-x=perhaps"}) == nil {
		t.Error("perhaps was taken")
	}
}

// TestJSON: --json is --format=json, and of both the last one counts.
func TestJSON(t *testing.T) {
	for line, want := range map[string]string{
		"": "text", "--json": "json", "--json=false": "text", "--json --format text": "text", "--format text --json": "json",
	} {
		fs := command.NewFlags("test")
		format := fs.String("format", "text", "")
		command.JSON(fs)
		if err := fs.Parse(strings.Fields(line)); err != nil || *format != want {
			t.Errorf("%q: %q, %v, want %q", line, *format, err, want)
		}
	}
	fs := command.NewFlags("test")
	fs.Bool("json", false, "")
	err := command.Parse(fs, []string{"--format=json"}, "", io.Discard)
	if err == nil || err.Error() != "unknown flag --format (did you mean --json?)" {
		t.Errorf("--format, which there is not: %v", err)
	}
}

// TestParseOperands: flags may stand after operands, up to "--".
func TestParseOperands(t *testing.T) {
	for line, want := range map[string]struct {
		operands string
		q        bool
		out      string
	}{
		"":                  {},
		"FILE":              {operands: "FILE"},
		"-q FILE":           {operands: "FILE", q: true},
		"FILE -q":           {operands: "FILE", q: true},
		"a -o x b -q c":     {operands: "a b c", q: true, out: "x"},
		"a -o=x":            {operands: "a", out: "x"},
		"- -q":              {operands: "-", q: true},
		"-- -q":             {operands: "-q"},
		"a -- -q -o":        {operands: "a -q -o"},
		"a -q -- b -- -o x": {operands: "a b -- -o x", q: true},
	} {
		fs := command.NewFlags("test")
		q, out := fs.Bool("q", false, ""), fs.String("o", "", "")
		err := command.ParseOperands(fs, strings.Fields(line), "", io.Discard)
		if got := strings.Join(fs.Args(), " "); err != nil || got != want.operands || *q != want.q || *out != want.out {
			t.Errorf("%q: operands %q, -q %v, -o %q, %v, want %+v", line, got, *q, *out, err, want)
		}
	}
	for line, want := range map[string]string{"a --quick": "unknown flag --quick", "a -o": "-o needs a value"} {
		fs := command.NewFlags("test")
		fs.String("o", "", "")
		if err := command.ParseOperands(fs, strings.Fields(line), "", io.Discard); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
