package partstest_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"ustack/tracefs/partstest"
)

// most is how many methods a type has at most.
const most = 40

// TestMethods: no type of the module has so many methods that nothing says which of its
// state belongs together.
func TestMethods(t *testing.T) {
	const root = "../.."
	types := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || name == "vendor" || len(name) > 2 && name[0] == '.' {
			return filepath.SkipDir
		}
		dir, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for name, n := range partstest.Methods(t, path) {
			types++
			if n > most {
				t.Errorf("%s.%s has %d methods, more than %d", filepath.ToSlash(dir), name, n, most)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if types < 100 {
		t.Errorf("only %d types have methods", types)
	}
}
