package command_test

import (
	"os"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
)

// TestFiles: what is to be traced is not taken for a trace, and a trace not for a program.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir+"/bin")
	if err := os.Mkdir("bin", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/shopd", "bin/saved", "saved"} {
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const both = "a file and a command cannot be combined: what is after -- is traced by ustack wait -- CMD, and a saved trace comes without --"
	for _, c := range []struct{ args, files, want string }{
		{"saved", "saved", ""},
		{"-q -- saved", "saved", ""},
		{"-- saved -x", "saved -x", ""},
		{"gone", "gone", ""}, // opening it says so
		{"-", "-", ""},
		{"", "", ""},
		{"shopd", "shopd", `no file "shopd", but a program: ustack wait -- CMD traces it`},
		{"saved shopd", "saved shopd", `no file "shopd", but a program: ustack wait -- CMD traces it`},
		{"saved -- shopd", "saved shopd", both},
		{"saved -q -- shopd -n 1", "saved shopd -n 1", both},
	} {
		got := ""
		if err := command.Files(strings.Fields(c.args), strings.Fields(c.files), "ustack wait"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
