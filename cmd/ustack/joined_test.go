package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// joinedSave is a trace of process 7, as live saves it, and its address spaces, in which
// the program is called what name says.
func joinedSave(id, name string, stacks int) (trace, spaces string) {
	spaces = "# ustack side band 2 clock=mono\ntrace 0.000000000 " + id + "\nfork 1.000000000 1 7\n" +
		"map 1.100000000 7 401000-402000 r-xp 1000 fe:00 5 0 file - " + name + "\nuntil 3.000000000\n"
	trace = "# ustack: escaped=1 saved=" + id + "\n"
	for n := range stacks {
		trace += fmt.Sprintf("             app-7       [000] .....     2.%06d: sys_getppid()\n             app-7       [000] .....     2.%06d: <user stack trace>\n =>  <0000000000401010>\n", n, n)
	}
	return trace, spaces
}

// TestJoinedSaves: in saved traces that are joined to one, the address spaces of the
// first name no frame of the others for sure: these can be of another boot.
func TestJoinedSaves(t *testing.T) {
	const many = 3000 // more than one block of text
	first, spaces := joinedSave("0123456789abcdef", "/opt/first", many)
	second, others := joinedSave("fedcba9876543210", "/opt/second", many)
	empty, _ := joinedSave("0123456789abcdef", "", 0)
	other, _ := joinedSave("fedcba9876543210", "", 0)
	kernel := strings.TrimPrefix(second, other)
	cut := strings.Replace(spaces, "until 3.0", "until 2.0", 1) // what follows is missing
	for _, test := range []struct {
		name, trace, spaces string
		sure, late, claimed int
		joined              bool
	}{
		{"alone", first, spaces, many, 0, 0, false},
		{"spaces that were cut", first, cut, 1, 0, many - 1, false},
		{"two", first + second, spaces, many, many, 0, true},
		{"three", first + second + first, spaces, many, 2 * many, 0, true},
		{"the second's", first + second, others, 0, 2 * many, 0, false},
		{"without records", empty + second, spaces, 0, many, 0, true},
		{"the kernel's", first + "# tracer: nop\n#\n" + kernel, spaces, many, many, 0, true},
		{"in the middle", first[:len(first)-30] + "\n" + second, spaces, many - 1, many, 0, true},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"trace": test.trace, "spaces": test.spaces} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"--maps", filepath.Join(dir, "spaces"), filepath.Join(dir, "trace")}
		var text, json, report, stderr strings.Builder
		for out, args := range map[*strings.Builder][]string{
			&text: append([]string{"replay", "-q"}, args...), &json: append([]string{"replay", "-q", "--format=json"}, args...),
			&report: append([]string{"futex", "-q"}, args...),
		} {
			if code := run(args, nil, out, &stderr); code != exitOK {
				t.Fatalf("%s: exit code %d: %s", test.name, code, &stderr)
			}
		}
		late := strings.Count(text.String(), "> (late) : path=")
		sure := strings.Count(text.String(), "> : path=")
		claimed := strings.Count(text.String(), "> (claimed) : path=")
		if sure != test.sure || late != test.late || claimed != test.claimed {
			t.Errorf("%s: %d frames for sure, %d late, %d claimed, want %d, %d, %d", test.name, sure, late, claimed, test.sure, test.late, test.claimed)
		}
		if n := strings.Count(json.String(), `"trust":"verified"`); n != test.sure {
			t.Errorf("%s: %d frames verified in JSON, want %d", test.name, n, test.sure)
		}
		if joined := strings.Contains(stderr.String(), "another trace begins in this one"); joined != test.joined {
			t.Errorf("%s: the note is: %s", test.name, &stderr)
		}
	}
}
