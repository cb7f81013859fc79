//go:build !device

package contention

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/filemap/symbolize"
	"ustack/render/futex"
	"ustack/render/futex/diff"
	"ustack/tracefs/input"
)

// ReadCompared reads what is to be compared, the one file of from: a trace, or the JSON
// document of a report, as it is or compressed.
func ReadCompared(from *saved.Options, names *symbols.Options, stdin io.Reader, stderr io.Writer) (*diff.Report, error) {
	name := from.Files[0]
	if name == "-" {
		saved.SayTerminal(from.Files, stdin, stderr)
		b := bufio.NewReader(input.Once(stdin))
		if begin, _ := b.Peek(reportBegin); diff.Is(begin) { // an error comes again
			return diff.Read(b)
		}
		return readTrace(from, names, b, stderr)
	}
	if r, err := readReport(name); r != nil || err != nil {
		return r, err
	}
	return readTrace(from, names, stdin, stderr)
}

// reportBegin is in how many bytes the schema of a report must be.
const reportBegin = 512

// readReport reads a report. It is nil if the file is none.
func readReport(name string) (*diff.Report, error) {
	if ok, err := mayBeReport(name); !ok || err != nil {
		return nil, err
	}
	f, err := input.Open(name, nil)
	if err != nil {
		return nil, fmt.Errorf("opening what to compare: %w", err)
	}
	defer f.Close()
	b := bufio.NewReader(f)
	if begin, _ := b.Peek(reportBegin); !diff.Is(begin) {
		return nil, nil
	}
	return diff.Read(b)
}

// mayBeReport reports whether a file begins as a report may, or one that is compressed.
func mayBeReport(name string) (bool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, fmt.Errorf("looking at what to compare: %w", err)
	}
	if !info.Mode().IsRegular() { // a directory is a trace, what is read of a pipe is gone
		return false, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return false, fmt.Errorf("opening what to compare: %w", err)
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return false, nil // reading it as a trace says why
	}
	head = head[:n]
	return head[0] == '{' || bytes.HasPrefix(head, []byte{0x1f, 0x8b}) || bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), nil
}

// readTrace analyses a trace.
func readTrace(from *saved.Options, names *symbols.Options, stdin io.Reader, stderr io.Writer) (*diff.Report, error) {
	var o Output
	entries, err := symbolize.NewEntries(symbolize.Options{Sysroot: from.Sysroot})
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	a, err := o.Read(from, entries, stdin, stderr)
	if err != nil {
		return nil, err
	}
	if !a.Seen() {
		return nil, errors.New("there is no event in the trace")
	}
	table, err := names.Open(from.Sysroot, from.Progress())
	if err != nil {
		return nil, err
	}
	if table != nil {
		defer table.Close()
		step := from.Progress().Begin("naming the functions", nil)
		a.Name(table)
		a.NameLocks(table)
		step.End()
	}
	return diff.Of(a.Report(futex.View{By: futex.ByObject}))
}
