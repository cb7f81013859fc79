package main

import (
	"io"
	"os"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/destination"
	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/doctor"
	"ustack/render"
)

// doctorCommand is the subcommand.
func doctorCommand(args []string, std command.Streams) error {
	fs := command.NewFlags("doctor")
	asJSON := fs.Bool("json", false, "print a JSON object")
	var to destination.Flags
	to.RegisterFile(fs)
	opt := doctor.Options{Clock: live.Clock}
	fs.StringVar(&opt.Tracefs, "tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	fs.StringVar(&opt.Proc, "proc", "/proc", "`DIR` where proc is mounted")
	if err := command.ParseOnly(fs, args, help.Usage("doctor"), std.Out); err != nil {
		return command.UsageError(err)
	}
	opt.Program, _ = os.Executable() // without it there is a hint less
	report := doctor.Evaluate(doctor.Examine(opt))
	write := render.WriteDoctor
	if *asJSON {
		write = render.WriteDoctorJSON
	}
	if err := to.Stream(std.Out, func(w io.Writer) error { return write(render.Output(w), report) }); err != nil {
		return err
	}
	if !report.Works {
		return command.Exit(exitFailure)
	}
	return nil
}
