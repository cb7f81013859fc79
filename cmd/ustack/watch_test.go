package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"ustack/tracefs/capturetest"
)

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("never: " + what)
}

func exists(names ...string) bool {
	_, err := os.Lstat(filepath.Join(names...))
	return err == nil
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWatch: reports that are there, that are renamed into place and that come
// slowly are done, once; bad ones are rejected with the reason; SIGTERM ends it.
func TestWatch(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	bin := ustackBinary(t)
	report, err := os.ReadFile(filepath.Join("..", "..", "testdata", "captures", "hash", "edge2", "trace.txt.zst"))
	if err != nil {
		t.Fatal(err)
	}
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	write(t, filepath.Join(in, "before.zst"), report)
	write(t, filepath.Join(in, "bad"), []byte("this is no trace\n"))
	write(t, filepath.Join(in, "never.partial"), report)
	if err := os.Symlink("/etc/hostname", filepath.Join(in, "link")); err != nil {
		t.Fatal(err)
	}
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(bin, "watch", "--settle", "200ms", "--give-up", "5s", "--format", "text", "--out", out, in)
		said := new(bytes.Buffer)
		cmd.Stderr = said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, said
	}
	cmd, _ := start()
	eventually(t, "what was there is done", func() bool { return exists(out, "before.zst.text") })
	eventually(t, "what is bad is rejected", func() bool { return exists(in, "rejected", "bad") && !exists(in, "bad") })
	if why, err := os.ReadFile(filepath.Join(in, "rejected", "bad.reason")); err != nil || !strings.Contains(string(why), "not the text of an ftrace") {
		t.Errorf("the reason is %q, %v", why, err)
	}

	// Half of it, and a pause in which it does not change.
	slow := filepath.Join(in, "slow.zst")
	write(t, slow, report[:len(report)/2])
	time.Sleep(time.Second)
	if exists(out, "slow.zst.text") || exists(in, "rejected", "slow.zst") {
		t.Error("half a report was taken")
	}
	write(t, slow, report)
	if err := os.Rename(filepath.Join(in, "never.partial"), filepath.Join(in, "renamed.zst")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what came slowly is done", func() bool { return exists(out, "slow.zst.text") })
	eventually(t, "what was renamed is done", func() bool { return exists(out, "renamed.zst.text") })
	write(t, filepath.Join(in, "cut.zst"), report[:len(report)/2])
	eventually(t, "what has no end is rejected", func() bool { return exists(in, "rejected", "cut.zst.reason") })

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	want, _ := runs(t, exitOK, "replay", "-q", slow)
	for _, name := range []string{"before", "slow", "renamed"} {
		if got, err := os.ReadFile(filepath.Join(out, name+".zst.text")); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}

	// Another run does nothing twice, and takes away what was half done.
	write(t, filepath.Join(out, ".x.text.half"), nil)
	write(t, filepath.Join(in, "late.zst"), report)
	cmd, said := start()
	eventually(t, "the next one is done", func() bool { return exists(out, "late.zst.text") })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "is done"); n != 1 || exists(out, ".x.text.half") {
		t.Errorf("%d done:\n%s", n, said)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestWatchPlanted: in a directory where all may write, no file name ends the
// watch, and no link moves a file elsewhere.
func TestWatchPlanted(t *testing.T) {
	bin := ustackBinary(t)
	report, err := os.ReadFile(filepath.Join("..", "..", "testdata", "captures", "hash", "edge2", "trace.txt.zst"))
	if err != nil {
		t.Fatal(err)
	}
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	long := strings.Repeat("n", 250)
	write(t, filepath.Join(in, long), []byte("x"))
	write(t, filepath.Join(in, long[:240]+".zst"), report)
	write(t, filepath.Join(in, "forged\nustack watch: \"x\" is done"), []byte("x"))
	write(t, filepath.Join(in, "zgood.zst"), report)
	cmd := exec.Command(bin, "watch", "--settle", "100ms", "--give-up", "1s", "--format", "text", "--out", out, in)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the good one is done", func() bool { return exists(out, "zgood.zst.text") })
	eventually(t, "the bad ones are rejected", func() bool {
		names, _ := filepath.Glob(filepath.Join(in, "rejected", "*.reason"))
		return len(names) == 2
	})
	eventually(t, "the one with a long name is done", func() bool {
		names, _ := filepath.Glob(filepath.Join(out, "nnnn*.text"))
		return len(names) == 1
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	for line := range strings.Lines(said.String()) {
		if line == "ustack watch: \"x\" is done\n" {
			t.Errorf("a name is a line of the log:\n%s", &said)
		}
	}

	// A small file without an end.
	var bomb bytes.Buffer
	z, err := zstd.NewWriter(&bomb)
	if err != nil {
		t.Fatal(err)
	}
	_, err = z.Write(bytes.Repeat([]byte("# entries\n"), 1<<20))
	if err := errors.Join(err, z.Close()); err != nil || bomb.Len() > 100<<10 {
		t.Fatalf("%d bytes, %v", bomb.Len(), err)
	}
	in = t.TempDir()
	write(t, filepath.Join(in, "bomb.zst"), bomb.Bytes())
	_, stderr := runs(t, exitOK, "watch", "--once", "--settle", "100ms", "--give-up", "1s", "--max-size", "100K", "--out", out, in)
	if !strings.Contains(stderr, "the file is too large: more than 1638400 bytes when decompressed") {
		t.Error(stderr)
	}

	elsewhere := t.TempDir()
	in = t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(in, "rejected")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(in, "x.sh"), []byte("id"))
	_, stderr = runs(t, exitFailure, "watch", "--once", "--settle", "100ms", "--give-up", "1s", "--out", out, in)
	if !strings.Contains(stderr, "a symbolic link is not followed") || exists(elsewhere, "x.sh") {
		t.Errorf("moved: %v, %s", exists(elsewhere, "x.sh"), stderr)
	}
}
