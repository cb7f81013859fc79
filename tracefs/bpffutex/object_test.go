package bpffutex

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestObject: the compiled programs are those of the source beside them: "go generate" notes the
// sums of all three files.
func TestObject(t *testing.T) {
	list, err := os.ReadFile("program.sha256")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for line := range strings.Lines(string(list)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("%q is not a line of sha256sum", line)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is another one than when the programs were compiled: run go generate ./tracefs/bpffutex, with clang 14", name)
		}
		files++
	}
	if files != 3 {
		t.Errorf("%d files", files)
	}
}
