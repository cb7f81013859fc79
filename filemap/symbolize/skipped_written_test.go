package symbolize

import (
	"bytes"
	"os"
	"testing"
)

// TestSkippedWritten: no function is inferred by code with which a library was overwritten after
// it was opened, though its size and time are what they were.
func TestSkippedWritten(t *testing.T) {
	programName, libraryName := skippedPrograms(t)
	program, library := newSpecimen(t, programName), newSpecimen(t, libraryName)
	other, err := os.ReadFile(libraryName)
	if err != nil {
		t.Fatal(err)
	}
	call := library.labels["wait_here"] + 4 // after sub $8, %rsp
	right := bytes.Clone(other)
	copy(right[call:], []byte{0x0f, 0x1f, 0x44, 0, 0}) // a nop in place of the call of inner
	if err := os.WriteFile(libraryName, right, 0o755); err != nil {
		t.Fatal(err)
	}
	other = bytes.ReplaceAll(other, trimmed(library.file), make([]byte, len(trimmed(library.file))))
	info, err := os.Stat(libraryName)
	if err != nil {
		t.Fatal(err)
	}
	inside, outer := library.at("ip_inner", true), program.at("r_plain", false)
	if f := newSymbols(t, Options{}).Skipped(inside, outer); f != nil {
		t.Fatalf("as it is: %+v", f)
	}
	s := newSymbols(t, Options{})
	s.Skipped(inside, program.at("r_indirect", false)) // opens the files
	if err := os.WriteFile(libraryName, other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(libraryName, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if f := s.Skipped(inside, outer); f != nil {
		t.Errorf("overwritten: %s", f.Name.Function)
	}
}
