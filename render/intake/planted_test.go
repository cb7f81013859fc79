package intake

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPlanted: of what other users put there, only files are followed or opened,
// and what is moved is only their own name of it.
func TestPlanted(t *testing.T) {
	f := newFixture(t)
	at := func(name string) string { return filepath.Join(f.Dir, name) }
	victim := filepath.Join(t.TempDir(), "victim")
	check(t, os.WriteFile(victim, []byte("good, and secret"), 0o600))
	f.put(t, "report", "good")
	check(t, errors.Join(
		os.Symlink(victim, at("link")), os.Symlink("report", at("near")), os.Symlink("missing", at("dangling")), os.Symlink("/proc/self/environ", at("magic")),
		unix.Mkfifo(at("pipe"), 0o666), os.Mkdir(at("directory"), 0o777), os.WriteFile(at("directory/report"), []byte("good"), 0o666), os.Link(victim, at("hard"))))
	stay := []string{"dangling", "directory", "link", "magic", "near", "pipe", "rejected", "report"}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	t.Chdir(f.Dir) // the paths of sockets are short
	check(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}))
	stay = append(stay, "socket")
	if unix.Mknod(at("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		stay = append(stay, "zero")
	}
	check(t, f.all(t))
	if got := files(t, f.Dir); !slices.Equal(got, stay) {
		t.Errorf("%q is left, want %q", got, stay)
	}
	if got := slices.Collect(maps.Keys(f.done)); len(got) != 1 || f.result("report") != "good" {
		t.Errorf("%q were processed", got)
	}
	if !errors.Is(f.errs["hard"], errLinked) {
		t.Error(f.errs["hard"])
	}
	if b, err := os.ReadFile(victim); string(b) != "good, and secret" {
		t.Errorf("the victim is %q, %v", b, err)
	}
	if got := files(t, f.Out); len(got) != 1 {
		t.Errorf("results: %q", got)
	}
}

// TestLinkGone: a file that was delivered by link(2) and unlink(2) is a good one
// when its other name is gone.
func TestLinkGone(t *testing.T) {
	f := newFixture(t)
	f.GiveUp = time.Minute
	f.put(t, ".delivery", "good")
	check(t, os.Link(filepath.Join(f.Dir, ".delivery"), filepath.Join(f.Dir, "report")))
	f.put(t, "other", "good")
	f.hook = func(Report) { _ = os.Remove(filepath.Join(f.Dir, ".delivery")) }
	check(t, f.all(t))
	if f.result("report") != "good" {
		t.Error(f.errs["report"])
	}
}

// TestRejectedNotOurs: a directory for rejected reports that is not ours alone is
// refused, whatever was put in its place.
func TestRejectedNotOurs(t *testing.T) {
	for name, plant := range map[string]func(path, elsewhere string) error{
		"is not a directory (a symbolic link": func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"is not a directory":                  func(path, _ string) error { return os.WriteFile(path, nil, 0o600) },
		"others can write":                    func(path, _ string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o1777)) },
		"belongs to user 65534": func(path, _ string) error {
			if os.Geteuid() != 0 {
				return os.ErrPermission
			}
			return errors.Join(os.Mkdir(path, 0o755), os.Chown(path, 65534, 65534))
		},
	} {
		f := newFixture(t)
		f.put(t, "x.sh", "bad")
		elsewhere := t.TempDir()
		if err := plant(filepath.Join(f.Dir, rejected), elsewhere); errors.Is(err, os.ErrPermission) {
			t.Logf("%s: %v", name, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if err := f.all(t); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), filepath.Join(f.Dir, rejected)) {
			t.Errorf("%s: %v", name, err)
		}
		if len(files(t, elsewhere)) > 0 || !slices.Contains(files(t, f.Dir), "x.sh") {
			t.Errorf("%s: it was moved", name)
		}
	}
}

// TestRejectedReplaced: what is put in the place of our directory while we run is
// not used.
func TestRejectedReplaced(t *testing.T) {
	f := newFixture(t)
	at, elsewhere := filepath.Join(f.Dir, rejected), t.TempDir()
	f.put(t, "good", "good")
	f.put(t, "bad", "bad")
	f.hook = func(r Report) {
		if r.Name == "bad" {
			check(t, errors.Join(os.Rename(at, at+".moved"), os.Symlink(elsewhere, at)))
		}
	}
	check(t, f.all(t))
	if len(files(t, elsewhere)) > 0 {
		t.Error("a report was moved through a link")
	}
	if got := files(t, at+".moved"); !slices.Equal(got, []string{"bad", "bad.reason"}) {
		t.Errorf("rejected: %q", got)
	}

	// Removed, and something else in its place: reports stay where they are.
	f = newFixture(t)
	at = filepath.Join(f.Dir, rejected)
	f.put(t, "bad", "bad")
	f.hook = func(Report) { check(t, errors.Join(os.Remove(at), os.Symlink(elsewhere, at))) }
	check(t, f.all(t))
	if got := files(t, f.Dir); !slices.Equal(got, []string{"bad", "rejected"}) || len(files(t, elsewhere)) > 0 || f.errs["bad"] == nil {
		t.Errorf("%q, %v", got, f.errs["bad"])
	}

	// Only removed: it is made again.
	f = newFixture(t)
	at = filepath.Join(f.Dir, rejected)
	f.put(t, "bad", "bad")
	f.hook = func(Report) { check(t, os.Remove(at)) }
	check(t, f.all(t))
	if got := files(t, at); !slices.Equal(got, []string{"bad", "bad.reason"}) {
		t.Errorf("rejected: %q", got)
	}
}

// TestOutBelow: results can be below the reports, if each directory on the way is
// ours.
func TestOutBelow(t *testing.T) {
	f := newFixture(t)
	f.put(t, "report", "good")
	f.Out = filepath.Join(f.Dir, "a", "done")
	check(t, f.all(t))
	if f.result("report") != "good" {
		t.Error(f.errs["report"])
	}
	elsewhere := t.TempDir()
	real := filepath.Join(t.TempDir(), "real")
	check(t, errors.Join(os.Symlink(elsewhere, filepath.Join(f.Dir, "link")), os.Mkdir(filepath.Join(elsewhere, "sub"), 0o700), os.Symlink(f.Dir, real)))
	for _, out := range []string{filepath.Join(f.Dir, "link"), filepath.Join(f.Dir, "link", "sub"), filepath.Join(f.Dir, "a", "..", "link"), filepath.Join(real, "link")} {
		f.Out = out
		if err := f.all(t); err == nil || !strings.Contains(err.Error(), "is not followed") {
			t.Errorf("%s: %v", out, err)
		}
	}
	for _, out := range []string{f.Dir, real, filepath.Join(f.Dir, "a", "..")} {
		f.Out = out
		if err := f.all(t); err == nil || !strings.Contains(err.Error(), "cannot be in the same directory") {
			t.Errorf("%s: %v", out, err)
		}
	}
	if got := files(t, elsewhere); len(got) != 1 {
		t.Errorf("%q is elsewhere", got)
	}
}

// TestOpen: no name leads out of the directory, by either way to open.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	h, err := openDirectory(dir)
	check(t, err)
	defer h.close()
	check(t, errors.Join(os.Symlink("/etc/passwd", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)))
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "link", "x/../file"} {
		if f, err := h.open(name, unix.O_RDONLY); err == nil {
			t.Errorf("%q is %s", name, f.Name())
		}
	}
	if fd, err := h.openOld("link", unix.O_RDONLY); err == nil {
		t.Errorf("a link is %d", fd)
	}
	f, err := h.open("file", unix.O_RDONLY)
	check(t, err)
	fd, err := h.openOld("file", unix.O_RDONLY|unix.O_CLOEXEC)
	check(t, errors.Join(err, f.Close(), unix.Close(fd)))
}
