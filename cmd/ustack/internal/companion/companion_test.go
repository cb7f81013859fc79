package companion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const program = "ustack-some"

// TestBeside: the other program is looked for beside this one only.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "ustack")
	if err := os.WriteFile(self, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := beside(self, program); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, program)+" does not exist") || !strings.Contains(err.Error(), "go build -C") {
		t.Errorf("none: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, program), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := beside(self, program); err == nil {
		t.Error("a directory is a program")
	}
	if err := os.Remove(filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, program), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if path, err := beside(self, program); err != nil || path != filepath.Join(dir, program) {
		t.Errorf("%q, %v", path, err)
	}
	testForeign(t, self, filepath.Join(dir, program))
}

// testForeign: a program that another user can have made is not run.
func testForeign(t *testing.T, self, path string) {
	if err := os.Chmod(path, 0o707); err != nil {
		t.Fatal(err)
	}
	if _, err := beside(self, program); err == nil || !strings.Contains(err.Error(), "every user can write") {
		t.Errorf("a program that every user can write: %v", err)
	}
	if err := os.Rename(path, path+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program+".real", path); err != nil {
		t.Fatal(err)
	}
	if _, err := beside(self, program); err == nil {
		t.Error("a link is followed")
	}
	if err := os.Rename(path+".real", path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("the owner of a file can be changed by root only")
	}
	const another = 65534
	if err := os.Chown(path, another, -1); err != nil {
		t.Skipf("the owner of a file cannot be changed here: %v", err)
	}
	if _, err := beside(self, program); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("a program of another user: %v", err)
	}
}
