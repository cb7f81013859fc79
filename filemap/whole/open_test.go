package whole

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ustack/filemap/elfid"
	"ustack/filemap/openfile"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
)

// endedProcess is the number of a process that has ended.
func endedProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skipf("true is needed: %v", err)
	}
	return cmd.Process.Pid
}

// systemFile is a file of the system with a build ID.
func systemFile(t *testing.T) (name string, id elfid.ID) {
	t.Helper()
	for _, name := range []string{"/bin/sh", "/bin/true", "/bin/ls", "/bin/cat"} {
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue
		}
		f, err := os.Open(real)
		if err != nil {
			continue
		}
		id, err := elfid.Read(f)
		if err = errors.Join(err, f.Close()); err == nil && !id.IsZero() {
			return real, id
		}
	}
	t.Skip("a system program with a build ID is needed")
	return "", elfid.ID{}
}

// foreignFile is a copy of a file that another user has put into a directory like /tmp.
func foreignFile(t *testing.T, name string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs to be root, to give a file to another user")
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "program")
	data, err := os.ReadFile(name)
	if err = errors.Join(err, os.WriteFile(copied, data, 0o755), os.Chown(copied, 65534, 65534), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestOpenEnded: of a process that has ended, the file at the path is opened if it has
// the build ID and no other user can have put it there, and no other one.
func TestOpenEnded(t *testing.T) {
	name, id := systemFile(t)
	pid := endedProcess(t)
	reader, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		t.Fatal(err)
	}
	files := openfile.NewOpener(0)
	defer files.Close()
	other, _ := elfid.New([]byte("another file"))
	foreign := foreignFile(t, name)
	for _, c := range []struct {
		what string
		o    Opener
		file space.File
		want bool
	}{
		{"the same file", Opener{Reader: reader, Files: files}, space.File{Name: name, BuildID: id, Kind: procmap.File}, true},
		{"another one", Opener{Reader: reader, Files: files}, space.File{Name: name, BuildID: other, Kind: procmap.File}, false},
		{"no build ID", Opener{Reader: reader, Files: files}, space.File{Name: name, Kind: procmap.File}, false},
		{"no longer at its path", Opener{Reader: reader, Files: files}, space.File{Name: name + ".gone", BuildID: id, Kind: procmap.File}, false},
		{"of another user, in a directory for all", Opener{Reader: reader, Files: files}, space.File{Name: foreign, BuildID: id, Kind: procmap.File}, false},
		{"the same, as it was before the trace", Opener{Reader: reader, Files: files, Since: openfile.BeginAt(time.Now().Add(time.Hour))}, space.File{Name: foreign, BuildID: id, Kind: procmap.File}, true},
		{"deleted", Opener{Reader: reader, Files: files}, space.File{Name: name, BuildID: id, Kind: procmap.Deleted}, false},
	} {
		b, err := c.o.Open(pid, &space.Mapping{Start: 0x1000, End: 0x2000, Perms: procmap.Exec, File: &c.file})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
		if b != nil {
			b.Close()
		}
	}
}
