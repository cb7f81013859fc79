package procmap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHidePID(t *testing.T) {
	for _, c := range []struct{ mounts, want string }{
		{"", ""},
		{"22 27 0:21 / PROC rw - proc proc rw", ""},
		{"22 27 0:21 / PROC rw - proc proc rw,hidepid=off", ""},
		{"22 27 0:21 / PROC rw - proc proc rw,hidepid=0", ""},
		{"22 27 0:21 / PROC rw - proc proc rw,gid=5,hidepid=2", "2"},
		{"22 27 0:21 / PROC rw - proc proc rw,hidepid=invisible,subset=pid", "invisible"},
		{"22 27 0:21 / PROC rw - proc proc rw,hidepid=", ""},
		{"22 27 0:21 / /elsewhere rw - proc proc rw,hidepid=2", ""},
		{"22 27 0:21 / PROC rw - tmpfs proc rw,hidepid=2", ""},
		{"22 27 0:21 / PROC rw shared:2 - proc proc rw,hidepid=1\n23 22 0:22 / PROC rw - proc proc rw", ""},
		{"22 27 0:21 / PROC rw - proc proc rw\n23 22 0:22 / PROC rw - proc proc rw,hidepid=1\n", "1"},
		{" - \n - proc \nPROC - proc hidepid=2", ""},
	} {
		proc := t.TempDir()
		if err := os.Mkdir(filepath.Join(proc, "self"), 0o755); err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(c.mounts, "PROC", proc)
		if err := os.WriteFile(filepath.Join(proc, "self/mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := HidePID(proc); got != c.want {
			t.Errorf("%q: %q, want %q", c.mounts, got, c.want)
		}
	}
	if got := HidePID(t.TempDir()); got != "" {
		t.Errorf("without a table: %q", got)
	}
}
