package pids_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/pids"
)

func TestParse(t *testing.T) {
	own := filepath.Base(os.Args[0])
	for _, test := range []struct {
		operands []string
		want     []int
		err      string
	}{
		{nil, nil, ""},
		{[]string{"1"}, []int{1}, ""},
		{[]string{"1,2", "3"}, []int{1, 2, 3}, ""},
		{[]string{"0"}, nil, `not "0"`},
		{[]string{"-1"}, nil, `not "-1"`},
		{[]string{"1,"}, nil, `not ""`},
		{[]string{own}, nil, "did you mean -p name:" + regexp.QuoteMeta(own) + "?"},
		{[]string{"bash"}, nil, `name:REGEX, not "bash"`},
		{[]string{"name:"}, nil, "needs a regular expression"},
		{[]string{"name:("}, nil, "needs a regular expression"},
		{[]string{"name:" + strings.Repeat("x", 1001)}, nil, "over 1000 bytes"},
		{[]string{"name:^no such process$"}, nil, "no process has a name"},
		{[]string{"7", pids.Exact(own)}, []int{7, os.Getpid()}, ""},
	} {
		got, err := pids.Parse("/proc", test.operands)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: %v, want %q in it", test.operands, err, test.err)
			}
			continue
		}
		// Another run of this test has the same name.
		if err != nil || len(got) < len(test.want) || slices.ContainsFunc(test.want, func(pid int) bool { return !slices.Contains(got, pid) }) {
			t.Errorf("%q: %v, %v, want %v", test.operands, got, err, test.want)
		}
	}
}

func TestExists(t *testing.T) {
	own := filepath.Base(os.Args[0])
	if !pids.Exists("/proc", own) || pids.Exists("/proc", own+"x") || pids.Exists("/proc", own[:len(own)-1]) || pids.Exists("/nowhere", own) {
		t.Errorf("%s: %v, a longer one: %v, a shorter one: %v", own, pids.Exists("/proc", own), pids.Exists("/proc", own+"x"), pids.Exists("/proc", own[:len(own)-1]))
	}
}
