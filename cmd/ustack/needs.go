package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/cmd/ustack/help"
	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/output"
	"ustack/cmd/ustack/internal/pump"
	"ustack/cmd/ustack/internal/saved"
	"ustack/filemap/resolve"
	"ustack/filemap/symbolize"
	"ustack/render"
)

// parseLooking reads the flags of a command that looks at a trace as replay
// --symbols does.
func parseLooking(name, help string, args []string, stdout io.Writer) (*replayFlags, error) {
	var f replayFlags
	f.symbols.On = true
	fs := command.NewFlags(name)
	fs.StringVar(&f.dialectName, "dialect", "auto", "`DIALECT` of the stacks, as for replay")
	fs.StringVar(&f.Maps, "maps", "", "check file mapping events against the mappings in `DUMP`, as for replay")
	fs.StringVar(&f.Sysroot, "sysroot", "", "`DIR` with the ELF files at their paths")
	fs.Var((*command.List)(&f.symbols.DebugDirs), "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	f.definePerfMap(fs)
	f.symbols.registerNetwork(fs)
	f.to.Register(fs)
	if err := command.ParseOperands(fs, args, help, stdout); err != nil {
		return nil, err
	}
	f.format, f.maxUnresolved = "text", unlimitedPercents
	f.hold.Lines = pump.HoldLines
	return &f, f.parsed(fs.Args())
}

// look runs such a command.
func look(f *replayFlags, std command.Streams, renderer func(w io.Writer, names *symbolize.Symbols) render.Renderer) error {
	if err := f.check(); err != nil {
		return command.UsageError(err)
	}
	return f.to.Send(std.Out, true, func(w io.Writer) error {
		_, err := f.drive(std.In, std.Messages(), func(_ *saved.Trace, _ *resolve.Resolver, names *symbolize.Symbols) render.Renderer {
			return renderer(render.Output(w), names)
		})
		return err
	})
}

// needsCommand is the subcommand.
func needsCommand(args []string, std command.Streams) error {
	f, err := parseLooking("needs", help.Usage("needs"), args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	f.symbols.NoLines = true
	return look(f, std, func(w io.Writer, names *symbolize.Symbols) render.Renderer {
		return output.Named(render.NewNeeds(w), names)
	})
}

// explainCommand is the subcommand.
func explainCommand(args []string, std command.Streams) error {
	f, err := parseLooking("explain", help.Usage("explain"), args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	line, err := f.splitLine()
	if err != nil {
		return command.UsageError(err)
	}
	f.noTemplates, f.Why = true, &resolve.Why{Line: line}
	var e *render.Explanation
	err = look(f, std, func(w io.Writer, names *symbolize.Symbols) render.Renderer {
		e = render.NewExplanation(w, f.Why)
		return output.Explained(e, names)
	})
	if err == nil && !e.Found() {
		return fmt.Errorf("line %d of %s is not a frame of a user stack", line, f.Files[0])
	}
	return err
}

// splitLine takes the line off the one file that is given.
func (f *replayFlags) splitLine() (int64, error) {
	if len(f.Files) != 1 || f.Files[0] == "-" {
		return 0, errors.New("one FILE:LINE is required")
	}
	at := strings.LastIndexByte(f.Files[0], ':')
	if at < 0 {
		return 0, fmt.Errorf("%s: no :LINE at its end", f.Files[0])
	}
	line, err := strconv.ParseInt(f.Files[0][at+1:], 10, 64)
	if err != nil || line <= 0 {
		return 0, fmt.Errorf("%s: no :LINE at its end", f.Files[0])
	}
	f.Files[0] = f.Files[0][:at]
	return line, nil
}
