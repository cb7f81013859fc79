package contention

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/render/futex"
	"ustack/render/futex/diff"
)

// ReadCompared reads what is to be compared, the one file of from: a trace, or the JSON
// document of a report.
func ReadCompared(from *saved.Options, names *symbols.Options, stdin io.Reader, stderr io.Writer) (*diff.Report, error) {
	name := from.Files[0]
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("opening what to compare: %w", err)
		}
		defer f.Close()
		in = f
	}
	b := bufio.NewReader(in)
	begin, _ := b.Peek(512) // an error comes again
	switch {
	case diff.Is(begin):
		return diff.Read(b)
	case name == "-":
		stdin = b
	}
	var o Output
	a, err := o.Read(from, stdin, stderr)
	if err != nil {
		return nil, err
	}
	if !a.Seen() {
		return nil, errors.New("there is no event in the trace")
	}
	table, err := names.Open(from.Sysroot, stderr)
	if err != nil {
		return nil, err
	}
	if table != nil {
		defer table.Close()
		a.Name(table)
		a.NameLocks(table)
	}
	return diff.Of(a.Report(futex.View{By: futex.ByObject}))
}
