package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

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
func doctorCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("doctor")
	asJSON := fs.Bool("json", false, "print a JSON object")
	opt := doctor.Options{Clock: clock}
	fs.StringVar(&opt.Tracefs, "tracefs", "", "`DIR` where tracefs is mounted (default: where it usually is)")
	fs.StringVar(&opt.Proc, "proc", "/proc", "`DIR` where proc is mounted")
	err := parseFlags(fs, args, doctorHelp, stdout)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(render.Output(stderr), "ustack doctor: %v\n", err)
		return exitUsage
	}
	opt.Program, _ = os.Executable() // without it there is a hint less
	report := doctor.Judge(doctor.Examine(opt))
	write := render.WriteDoctor
	if *asJSON {
		write = render.WriteDoctorJSON
	}
	if err := write(render.Output(stdout), report); err != nil {
		fmt.Fprintf(render.Output(stderr), "ustack doctor: %v\n", err)
		return exitFailure
	}
	if !report.Works {
		return exitFailure
	}
	return exitOK
}
