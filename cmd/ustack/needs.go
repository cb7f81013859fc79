package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
)

const needsHelp = `usage: ustack needs [flags] FILE...

Lists the files that are missing here to name the functions of a saved trace,
one a line: build ID (or -), what to fetch (executable or debuginfo), number of
frames, path. Manual: ustack help symbols.

  ustack needs t | while read id kind n path; do debuginfod-find $kind $id; done

`

const explainHelp = `usage: ustack explain [flags] FILE:LINE

Shows for the frame in a line of a saved trace where its file and function came
from, what was tried, and what would help.

  ustack replay --symbols t > out; grep -n 'no symbol' out
  ustack explain out:1234

`

// parseLooking reads the flags of a command that looks at a trace as replay
// --symbols does.
func parseLooking(name, help string, args []string, stdout io.Writer) (*replayFlags, error) {
	var f replayFlags
	f.quiet, f.symbols.on = true, true
	fs := newFlags(name)
	fs.StringVar(&f.dialectName, "dialect", "auto", "`DIALECT` of the stacks, as for replay")
	fs.StringVar(&f.maps, "maps", "", "check file mapping events against the mappings in `DUMP`, as for replay")
	fs.StringVar(&f.sysroot, "sysroot", "", "`DIR` with the ELF files at their paths")
	fs.Var(&f.symbols.debugDirs, "debug-dir", "look for debug information in `DIR`, too; may be repeated")
	f.definePerfMap(fs)
	f.symbols.registerNetwork(fs)
	if err := parseFlags(fs, args, help, stdout); err != nil {
		return nil, err
	}
	f.format, f.maxUnresolved = "text", unlimitedPercents
	f.hold.Lines = defaultHoldLines
	return &f, f.parsed(fs.Args())
}

// look runs such a command.
func look(name string, f *replayFlags, err error, stdin io.Reader, stderr io.Writer, renderer func(*resolve.Resolver, *symbol.Symbols) render.Renderer) int {
	if err == nil {
		err = f.check()
	}
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "ustack %s: %v\n", name, err)
		return exitUsage
	}
	drive := func(_ *savedTrace, res *resolve.Resolver, names *symbol.Symbols) render.Renderer {
		return renderer(res, names)
	}
	if _, err := f.drive(stdin, stderr, drive); err != nil && !errors.Is(err, unix.EPIPE) {
		fmt.Fprintf(stderr, "ustack %s: %v\n", name, err)
		return exitFailure
	}
	return exitOK
}

// needsCommand is the subcommand.
func needsCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = render.Output(stderr)
	f, err := parseLooking("needs", needsHelp, args, stdout)
	if err == nil {
		f.symbols.noLines = true
	}
	return look("needs", f, err, stdin, stderr, func(_ *resolve.Resolver, names *symbol.Symbols) render.Renderer {
		return render.NewNeeds(render.Output(stdout), names)
	})
}

// explainCommand is the subcommand.
func explainCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = render.Output(stderr)
	f, err := parseLooking("explain", explainHelp, args, stdout)
	line := int64(0)
	if err == nil {
		f.noShapes = true
		line, err = f.splitLine()
		f.why = &resolve.Why{Line: line}
	}
	var e *render.Explanation
	code := look("explain", f, err, stdin, stderr, func(_ *resolve.Resolver, names *symbol.Symbols) render.Renderer {
		e = render.NewExplanation(render.Output(stdout), f.why, names)
		return e
	})
	if code == exitOK && e != nil && !e.Found() {
		fmt.Fprintf(stderr, "ustack explain: line %d of %s is not a frame of a user stack\n", line, f.files[0])
		return exitFailure
	}
	return code
}

// splitLine takes the line off the one file that is given.
func (f *replayFlags) splitLine() (int64, error) {
	if len(f.files) != 1 {
		return 0, errors.New("one FILE:LINE is required")
	}
	at := strings.LastIndexByte(f.files[0], ':')
	if at < 0 {
		return 0, fmt.Errorf("%s: no :LINE at its end", f.files[0])
	}
	line, err := strconv.ParseInt(f.files[0][at+1:], 10, 64)
	if err != nil || line <= 0 {
		return 0, fmt.Errorf("%s: no :LINE at its end", f.files[0])
	}
	f.files[0] = f.files[0][:at]
	return line, nil
}
