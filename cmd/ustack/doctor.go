package main

import (
	"os"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/live"
	"ustack/filemap/doctor"
	"ustack/render"
)

const doctorHelp = `usage: ustack doctor [flags]

Checks whether ustack live works here and how well: every file, option, event,
capability and setting that matters, what works without it, and the command
(for root) that would help. Changes nothing. Manual: ustack help live.

Exit codes: 0 live works, 1 it does not (or another failure), 2 usage.

`

// doctorCommand is the subcommand.
func doctorCommand(args []string, std command.Streams) error {
	fs := command.NewFlags("doctor")
	asJSON := fs.Bool("json", false, "print a JSON object")
	opt := doctor.Options{Clock: live.Clock}
	fs.StringVar(&opt.Tracefs, "tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	fs.StringVar(&opt.Proc, "proc", "/proc", "`DIR` where proc is mounted")
	if err := command.ParseOnly(fs, args, doctorHelp, std.Out); err != nil {
		return command.UsageError(err)
	}
	opt.Program, _ = os.Executable() // without it there is a hint less
	report := doctor.Evaluate(doctor.Examine(opt))
	write := render.WriteDoctor
	if *asJSON {
		write = render.WriteDoctorJSON
	}
	if err := write(render.Output(std.Out), report); err != nil {
		return err
	}
	if !report.Works {
		return command.Exit(exitFailure)
	}
	return nil
}
