package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs/input"
)

const mergeHelp = `usage: ustack merge [flags] -o FILE REPORT...
`

func mergeCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = render.Output(stderr)
	var f convertFlags
	fs := flag.NewFlagSet("merge", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	f.define(fs)
	if err := f.parse(fs, args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, mergeHelp)
			fs.SetOutput(stdout)
			fs.PrintDefaults()
			return exitOK
		}
		fmt.Fprintf(stderr, "ustack merge: %v\n", err)
		return exitUsage
	}
	_ = record.Version
	trace, err := f.open(stdin, input.Options{Events: true}, convertHold())
	if err != nil {
		panic(err)
	}
	file, _ := record.Create(f.out, 0)
	out := record.NewConverter(file, nil)
	_, err = trace.read(func(*resolve.Resolver) render.Renderer { return out }, stderr)
	if err := finishConverted(file, err); err != nil {
		fmt.Fprintf(stderr, "ustack merge: %v\n", err)
		return exitFailure
	}
	return exitOK
}
