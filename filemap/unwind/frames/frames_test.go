package frames

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/health"
	"ustack/tracefs/capturetest"
)

// TestCompiled: programs without tables, compiled with and without frame
// pointers.
func TestCompiled(t *testing.T) {
	capturetest.SkipShort(t)
	for _, c := range []struct {
		compiler, flag string
		want           health.Keep
	}{
		{"gcc", "-fno-omit-frame-pointer", health.Kept},
		{"gcc", "-fomit-frame-pointer", health.Dropped},
		{"aarch64-linux-gnu-gcc", "-fno-omit-frame-pointer", health.Kept},
		{"aarch64-linux-gnu-gcc", "-fomit-frame-pointer", health.Dropped},
	} {
		t.Run(c.compiler+c.flag, func(t *testing.T) {
			if _, err := exec.LookPath(c.compiler); err != nil {
				t.Skip(err)
			}
			out := filepath.Join(t.TempDir(), "program")
			if text, err := exec.Command(c.compiler, "-O2", "-w", c.flag, "-o", out, "../testdata/self.c").CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, text)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			x, err := image.Open(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			counts := Count(x, nil, nil)
			if got := counts.Check(); got != c.want {
				t.Errorf("%v, %+v, want %v", got, counts, c.want)
			}
		})
	}
}
