package health

import (
	"debug/elf"
	"strings"
)

// Passage is what becomes of stacks that lead through a file.
type Passage uint8

const (
	// Through: they go on.
	Through Passage = iota
	// Mostly: in most places they do.
	Mostly
	// Stops: they end there.
	Stops
	// Unsure: there is too little code to say.
	Unsure
)

// String returns the word in JSON.
func (p Passage) String() string {
	return [...]string{"through", "mostly", "stops", "unknown"}[min(p, Unsure)]
}

// Shares of the calls, from 0 to 1: Through from whole on, Mostly from most on.
const (
	whole = 0.995
	most  = 0.9
)

// Unwound returns what becomes of them by package unwind, the way of
// --unwind=auto.
func (p *Report) Unwound() Passage {
	switch {
	case !p.Known() || p.Code == 0:
		return Unsure
	case p.Reach >= whole:
		return Through
	case p.Reach >= most:
		return Mostly
	}
	return Stops
}

// Kernel returns what becomes of the kernel's own stacks, which go by frame
// pointers.
func (p *Report) Kernel() Passage {
	if !p.Known() || p.Code == 0 {
		return Unsure
	}
	return [...]Passage{Unknown: Unsure, Kept: Through, Dropped: Stops, Mixed: Mostly}[p.FramePointers]
}

// Known reports whether package unwind knows the machine.
func (p *Report) Known() bool {
	return p.Wide && (p.Machine == elf.EM_X86_64 || p.Machine == elf.EM_AARCH64)
}

// HasTable reports whether there is any table in the file.
func (p *Report) HasTable() bool {
	return p.EHFrame.Present || p.DebugFrame.Present || p.SFrame.Present || p.GoTable.Present
}

// Reason is why stacks through a file stop, or lack something.
type Reason uint8

// The reasons, those that matter most first.
const (
	// NoSections: no section headers, by which tables and names are found.
	NoSections Reason = iota
	// NoInformation: no tables, and no frame pointers.
	NoInformation
	// LeftOut: tables leave out code that calls.
	LeftOut
	// Followed: code without a table that calls is followed.
	Followed
	// Damaged: a table cannot be read.
	Damaged
	// OtherMachine: the unwinder does not know the machine.
	OtherMachine
	// NoFramePointers: the kernel's stacks stop.
	NoFramePointers
	// SomeFramePointers: the kernel's stacks stop at some functions.
	SomeFramePointers
	// NoCode: there is none in the file.
	NoCode
	// NoSymbols: no function has a name. ExportsOnly: only exported ones have.
	NoSymbols
	ExportsOnly
	// NoBuildID: there is none.
	NoBuildID
	reasonCount
)

// ReasonCount is the number of reasons.
const ReasonCount = int(reasonCount)

// reasons are the words of a reason: for JSON, why, and what to do.
var reasons = [reasonCount]struct{ word, why, do string }{
	NoSections: {"no-sections", "no section headers: unwind tables and names cannot be found",
		"use the file as it was before sstrip or a packer"},
	NoInformation: {"no-information", "stacks stop here: there are no unwind tables (.eh_frame, .debug_frame, .sframe), and the code does not show where frames are",
		"build with -fasynchronous-unwind-tables, or with -fno-omit-frame-pointer"},
	LeftOut: {"left-out", "whole stacks (--unwind=auto) can stop here: the unwind tables leave out code that calls",
		"build that code with -fasynchronous-unwind-tables; assembler code needs .cfi directives"},
	Followed: {"followed", "unwind tables leave out code that calls: whole stacks (--unwind=auto) follow its instructions",
		"nothing; other unwinders need -fasynchronous-unwind-tables, and .cfi directives in assembler code"},
	Damaged: {"damaged", "an unwind table cannot be read",
		"install or build the file again; if readelf --debug-dump=frames reads it, report that"},
	OtherMachine: {"other-machine", "whole stacks stop here: code of a machine that is not unwound",
		"nothing: only 64-bit x86-64 and arm64 are unwound"},
	NoFramePointers: {"no-frame-pointers", "the kernel's stacks (--unwind=fp, perf, bpftrace, ftrace) stop here: the code keeps no frame pointers",
		"use --unwind=auto (ustack help live), or build with -fno-omit-frame-pointer"},
	SomeFramePointers: {"some-frame-pointers", "the kernel's stacks (--unwind=fp, perf, bpftrace, ftrace) stop here, or lack callers: some code keeps no frame pointers",
		"use --unwind=auto (ustack help live), or build all with -fno-omit-frame-pointer"},
	NoCode: {"no-code", "no stack leads through this file: it has no code, as separate debug files and libraries of data have none",
		"look at the program or library itself"},
	NoSymbols: {"no-symbols", "functions have no names: stripped, and no debug file is here",
		installDebug},
	ExportsOnly: {"exports-only", "only exported functions have names: stripped, and no debug file is here",
		installDebug},
	NoBuildID: {"no-build-id", "no build ID: no debug file can be found by it, and a trace cannot show that it is this file",
		"link with -Wl,--build-id; Go: -ldflags=-B=gobuildid"},
}

// Advice for names, with idPlace where the build ID goes, and without one.
const (
	idPlace      = "BUILD-ID"
	installDebug = "install the debug file: debuginfod-find debuginfo " + idPlace + ", or the package with -dbgsym or -debuginfo"
	installFile  = "without a build ID: use the unstripped file, or install the package with -dbgsym or -debuginfo"
)

// String returns the word in JSON.
func (r Reason) String() string { return reasons[min(r, reasonCount-1)].word }

// Why returns what the reason means for stacks, for people.
func (r Reason) Why() string { return reasons[min(r, reasonCount-1)].why }

// Do returns what to do with a file of this build ID, in hex, "" if it has none. It
// can be a word for several, such as BUILD-ID.
func (r Reason) Do(buildID string) string {
	do := reasons[min(r, reasonCount-1)].do
	if do == installDebug && buildID == "" {
		return installFile
	}
	return strings.ReplaceAll(do, idPlace, buildID)
}

// Reasons returns what stops stacks, and what they lack, in the order of
// Reason.
func (p *Report) Reasons() (list []Reason) {
	lacksNames := p.Code > 0 && p.bestNames() == NoNames
	auto := p.Unwound() != Stops || p.HasTable() // it gets further than the kernel
	for r, holds := range [...]bool{
		NoSections:        p.NoSections && (p.Unwound() == Stops || lacksNames),
		NoInformation:     p.Unwound() == Stops && !p.HasTable() && !p.NoSections,
		LeftOut:           (p.Unwound() == Stops && p.HasTable() || p.Unwound() == Mostly) && !p.NoSections,
		Followed:          p.Followed > 0 && p.Unwound() == Through && p.Covered < most && p.Missing > StartFiles && !p.NoSections,
		Damaged:           len(p.Damaged) > 0,
		OtherMachine:      !p.Known(),
		NoFramePointers:   p.Kernel() == Stops && auto,
		SomeFramePointers: p.Kernel() == Mostly && auto,
		NoCode:            p.Code == 0,
		NoSymbols:         lacksNames && !p.NoSections,
		ExportsOnly:       p.Code > 0 && p.bestNames() == Exported && !p.Kernels,
		NoBuildID:         p.BuildID.IsZero(),
	} {
		if holds {
			list = append(list, Reason(r))
		}
	}
	return list
}

// bestNames returns the names in the file and its separate debug file.
func (p *Report) bestNames() Names { return max(p.Names, p.Separate.Names) }
