package main

import (
	"fmt"
	"io"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/pump"
	"ustack/filemap/resolve"
	"ustack/render"
	"ustack/render/record"
	"ustack/tracefs/input"
)

// mergeCommand is the subcommand.
func mergeCommand(args []string, std command.Streams) error {
	var f convertFlags
	fs := command.NewFlags("merge")
	fs.BoolVar(&f.Quiet, "q", false, "no progress")
	fs.StringVar(&f.out, "o", "", "write the report to `FILE`")
	f.dialectName = "auto"
	if err := f.parse(fs, args, help.Usage("merge"), std.Out); err != nil {
		return command.UsageError(err)
	}
	return f.merge(std.In, std.Messages())
}

func (f *convertFlags) merge(stdin io.Reader, stderr io.Writer) error {
	m := record.NewMerge()
	for _, name := range f.Files {
		if err := f.count(m, name, stdin, stderr); err != nil {
			return err
		}
	}
	file, err := record.Create(f.out, 0)
	if err != nil {
		return err
	}
	defer render.Progress(stderr, f.Quiet).Begin("writing the report", nil).End()
	return finishConverted(file, m.WriteTo(file))
}

// count adds a report.
func (f *convertFlags) count(m *record.Merge, name string, stdin io.Reader, stderr io.Writer) error {
	one := f.traceFlags
	one.Files, one.Messages = []string{name}, stderr
	opt := resolve.Options{Hold: pump.StitchedHold(), Stitch: true}
	trace, err := one.Open(stdin, input.Options{Events: true}, opt)
	if err != nil {
		return err
	}
	defer trace.Close()
	trace.FindLateStacks()
	if _, err = trace.Read(func(*resolve.Resolver) render.Renderer { return m.Report() }, stderr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
