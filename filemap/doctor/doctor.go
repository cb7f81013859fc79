// Package doctor checks whether, and how well, stacks can be traced and get
// their files on this machine: each thing that matters is a Check, which says
// what works without it and which command would help.
//
// It does not check what is not needed: kernel.kptr_restrict, debug information, a
// compiler.
package doctor

import (
	"fmt"
	"strings"

	"ustack/filemap/facts"
	"ustack/filemap/sideband"
	"ustack/filemap/tasks"
	"ustack/tracefs/instance"
)

// State is how it stands with what a Check is about.
type State uint8

const (
	// OK: it is as it should be.
	OK State = iota
	// Limited: it is there, but not all that it could be.
	Limited
	// Missing: it is not there, or may not be used.
	Missing
)

// String returns the word for a state.
func (s State) String() string { return [...]string{"ok", "limited", "missing"}[s] }

// Groups of Checks.
const (
	Tracing  = "tracing"
	Mappings = "mappings"
	Rights   = "rights"
	Limits   = "limits"
)

// Check is one thing that was looked at.
type Check struct {
	Group, Name string
	State       State
	// Required: live does not work if it is missing.
	Required bool
	// Found is what there is.
	Found string
	// Without is how it works as it is; "" if it is OK.
	Without string
	// Fix is one command, for root, that would improve matters; "" if there is
	// none.
	Fix string
}

// Report is all that was looked at, and what follows.
type Report struct {
	// Works: live works.
	Works bool
	// Verdict says so in one line, or why not.
	Verdict string
	// Kernel is its release.
	Kernel string
	// Stacks is how stacks are taken, Mappings how mappings are followed, Clock
	// the trace clock; "" if live does not work.
	Stacks, Mappings, Clock string
	// Checks are in order of their groups, and of importance in a group.
	Checks []Check
}

// Options are the directories to look in.
type Options struct {
	// Tracefs is where tracefs is mounted, if not where it usually is; Proc is
	// where proc is, /proc if empty; Sys is where sysfs is, /sys if empty.
	Tracefs, Proc, Sys string
	// Clock is the trace clock that is to be used.
	Clock string
	// Program is the path of the program that is to have the rights.
	Program string
	// Find finds the tracing interface, instance.Find if nil.
	Find func(dir string) (*instance.Root, error)
}

// Findings are what a Report is made of.
type Findings struct {
	// Tracing is what tracefs offers, nil if there is none: TracingErr.
	Tracing    *instance.Facts
	TracingErr error
	// Scheduler is why mappings cannot be followed by events, nil if they can.
	Scheduler error
	Facts     *facts.Facts
	// Clock and Program are from the Options.
	Clock, Program string
}

// Examine looks at the machine. Nothing is changed.
func Examine(opt Options) *Findings {
	f := &Findings{Clock: opt.Clock, Program: opt.Program}
	look := facts.Options{Proc: opt.Proc, Sys: opt.Sys, Clock: opt.Clock}
	find := opt.Find
	if find == nil {
		find = instance.Find
	}
	root, err := find(opt.Tracefs)
	if err == nil {
		look.Tracepoints = sideband.Tracepoints(root)
		look.Futex, _ = root.ID(instance.Event{System: "syscalls", Name: "sys_enter_futex"}) // 0 if there is none
	}
	f.Facts = facts.Collect(look)
	if err != nil {
		f.TracingErr = err
		return f
	}
	tracing := root.Facts()
	f.Tracing = &tracing
	_, f.Scheduler = tasks.Events(root)
	return f
}

// Evaluate makes a Report of Findings.
func Evaluate(f *Findings) *Report {
	r := &Report{Kernel: f.Facts.Release, Works: true}
	for _, checks := range [][]Check{
		tracingChecks{f}.all(), unwindChecks{f}.all(), mappingChecks{f}.all(), rightChecks{f}.all(), limitChecks{f}.all(),
	} {
		r.Checks = append(r.Checks, checks...)
	}
	why, more := "", 0
	for i := range r.Checks {
		c := &r.Checks[i]
		switch {
		case !c.Required || c.State != Missing:
		case r.Works:
			r.Works, why = false, c.Name+": "+c.Found
		case c.Name == lockdownCheck: // the others follow from it
			why = c.Name + ": " + c.Found
			more++
		default:
			more++
		}
	}
	if !r.Works {
		r.Verdict = "live does not work: " + why
		if more > 0 {
			r.Verdict += fmt.Sprintf(" (and %d more)", more)
		}
		return r
	}
	r.Stacks, r.Mappings, r.Clock = f.stacks(), f.how(), f.Clock
	r.Verdict = fmt.Sprintf("live works: %s stacks, mappings by %s, clock %s", r.Stacks, r.Mappings, r.Clock)
	if only := f.only(); len(only) > 0 {
		r.Verdict += "; only with " + strings.Join(only, ", and with ")
	}
	if r.Mappings == tasks.Name {
		r.Verdict += "; " + tasks.Limit
	}
	return r
}

// only lists the flags that live does not work without.
func (f *Findings) only() []string {
	var list []string
	if len(f.Tracing.Default) == 0 {
		list = append(list, "-e")
	}
	if file := f.file("set_event_notrace_pid"); file != nil && !file.OK() {
		list = append(list, "-p or a command")
	}
	return list
}

// file returns a file of the tracing interface, nil if it was not looked at.
func (f *Findings) file(name string) *instance.FileFact {
	for i := range f.Tracing.Files {
		if f.Tracing.Files[i].Name == name {
			return &f.Tracing.Files[i]
		}
	}
	return nil
}

// stacks returns how stacks are taken, see instance.SetStacks.
func (f *Findings) stacks() string {
	if f.Tracing.Deferred {
		return instance.DeferredStacks.String()
	}
	return instance.StockStacks.String()
}

// how returns how live follows mappings.
func (f *Findings) how() string {
	switch {
	case f.Facts.Band.Err != nil:
		return tasks.Name
	}
	return sideband.Name
}
