package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestReadmeFutex runs the commands of README's section about futexes that
// read captures, and compares what they print.
func TestReadmeFutex(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Futex")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("README.md has no section about futexes")
	}
	const prompt = "    $ go run ./cmd/ustack futex "
	scenes := 0
	lines := strings.Split(section, "\n")
	for i := 0; i < len(lines); i++ {
		command, ok := strings.CutPrefix(lines[i], prompt)
		if !ok {
			continue
		}
		scenes++
		args, head, _ := strings.Cut(command, " | head -")
		var want []string
		for i++; i < len(lines) && strings.HasPrefix(lines[i], "    ") || i+1 < len(lines) && lines[i] == "" && strings.HasPrefix(lines[i+1], "    "); i++ {
			want = append(want, strings.TrimPrefix(lines[i], "    "))
		}
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"futex"}, strings.Fields(args)...), nil, &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", args, code, stderr.Bytes())
		}
		got := strings.Split(strings.TrimRight(stdout.String(), "\n"), "\n")
		if head != "" {
			got = got[:len(want)]
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("futex %s prints\n%s\nREADME.md has\n%s", args, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if scenes == 0 {
		t.Error("there is no command to try")
	}
}
