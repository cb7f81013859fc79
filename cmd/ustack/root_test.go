package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"ustack/tracefs/capturetest"
)

// truthFiles are the files of the machine on which the captures were made, "" until a
// test asks for them. They are unpacked once, and removed by TestMain.
var truthFiles struct {
	once sync.Once
	dir  string
}

// truthRoot returns the root directory of the machine on which the captures were made.
// Tests share it, and must not write there.
func truthRoot(t testing.TB) string {
	t.Helper()
	truthFiles.once.Do(func() {
		dir, err := os.MkdirTemp("", "ustack-truth-")
		if err == nil {
			err = capturetest.UnpackInto(dir, capturetest.Read(t, "../../testdata/truth/rootfs.tar.zst"))
		}
		if err != nil {
			t.Fatal(errors.Join(err, os.RemoveAll(dir)))
		}
		truthFiles.dir = dir
	})
	if truthFiles.dir == "" {
		t.Fatal("the files of the machine could not be unpacked")
	}
	return truthFiles.dir
}

// cleaned runs tests, and removes what they share.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	// A pager on a terminal of a test waits for a key for ever. Tests of pagers name one.
	if err := os.Setenv("PAGER", "cat"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := c.M.Run()
	if truthFiles.dir != "" {
		if err := os.RemoveAll(truthFiles.dir); err != nil {
			return max(code, 1)
		}
	}
	return code
}
