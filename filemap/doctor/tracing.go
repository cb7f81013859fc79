package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/tracefs/instance"
	"ustack/tracefs/privilege"
)

// tracingChecks make the checks of the group Tracing.
type tracingChecks struct{ *Findings }

// all checks the tracing interface.
func (f tracingChecks) all() []Check {
	t := f.Tracing
	if t == nil {
		return []Check{f.noTracefs()}
	}
	list := []Check{{Name: "tracefs", Required: true, Found: t.Path + ", tracefs"}}
	list = append(list, f.files(false)...)
	list = append(list, f.userStacks()...)
	list = append(list, f.clock(), f.events())
	list = append(list, f.compat()...)
	list = append(list, f.deferred())
	if t.Deferred {
		list = append(list, f.mappingEvents())
	}
	list = append(list, f.files(true)...)
	list = append(list, f.leftovers())
	if err := errors.Join(t.Errors...); err != nil {
		list = append(list, Check{Name: "unreadable", State: Limited, Found: err.Error(),
			Without: "the lines above may be incomplete"})
	}
	return inGroup(Tracing, list)
}

func inGroup(group string, list []Check) []Check {
	for i := range list {
		list[i].Group = group
	}
	return list
}

func (f tracingChecks) noTracefs() Check {
	c := Check{Group: Tracing, Name: "tracefs", State: Missing, Required: true, Found: f.TracingErr.Error()}
	help := new(instance.HelpError)
	switch {
	case errors.Is(f.TracingErr, instance.ErrNoTracefs) && errors.As(f.TracingErr, &help):
		c.Found, c.Fix = help.Err.Error(), help.Help
	case errors.Is(f.TracingErr, unix.EACCES):
		f.needRoot(&c)
	}
	return c
}

// deferredOption is the file of the option for deferred stacks.
const deferredOption = "options/userstacktrace_delay"

// files checks the needed or the optional files of the interface.
func (f tracingChecks) files(optional bool) []Check {
	var list []Check
	for i := range f.Tracing.Files {
		file := &f.Tracing.Files[i]
		if file.Optional != optional || file.Name == deferredOption {
			continue // see deferred
		}
		c := Check{Name: file.Name, Required: !optional, Found: "for " + file.Use}
		if !file.OK() {
			c.State, c.Without = Missing, file.Without
			c.Found += ": " + f.wrong(file)
			f.permit(&c, file)
		}
		list = append(list, c)
	}
	return list
}

// wrong says why a file cannot be used.
func (f tracingChecks) wrong(file *instance.FileFact) string {
	switch {
	case !file.Exists:
		return "the kernel has no such file"
	case f.Tracing.ReadOnly && file.NeedWrite && !file.Writable:
		return "tracefs is mounted read-only"
	case !file.Readable && file.NeedRead:
		return "we may not read it"
	}
	return "we may not write it"
}

// permit adds to a check what lets us use a file which is there.
func (f tracingChecks) permit(c *Check, file *instance.FileFact) {
	switch {
	case !file.Exists:
	case f.Tracing.ReadOnly:
		c.Fix = "mount -o remount,rw " + privilege.Quote(f.Tracing.Path)
	default:
		f.needRoot(c)
	}
}

func (f tracingChecks) clock() Check {
	c := Check{Name: "clock " + f.Clock, Required: true, Found: "the kernel has it, as perf does"}
	if !slices.Contains(f.Tracing.Clocks, f.Clock) {
		c.State = Missing
		c.Found = "not among the kernel's: " + cmp.Or(strings.Join(f.Tracing.Clocks, ", "), "none")
	}
	return c
}

// events checks the events that are traced by default. A system call that the
// kernel does not have cannot be called, so its event is not missed.
func (f tracingChecks) events() Check {
	t := f.Tracing
	c := Check{Name: "futex events", Found: fmt.Sprintf("%d, of %d events", len(t.Default), t.Events)}
	if len(t.Default) == 0 {
		c.State = Missing
		c.Found = fmt.Sprintf("none, of %d events (CONFIG_FTRACE_SYSCALLS)", t.Events)
		c.Without = "live needs -e, for instance -e sched:sched_switch"
	} else if len(t.DefaultMissing) > 0 {
		c.Found += "; the kernel lacks " + calls(t.DefaultMissing)
	}
	return c
}

// userStacks checks whether a stack can come at all, where that is not sure.
func (f tracingChecks) userStacks() []Check {
	c := Check{Name: "user stacks", Without: "ustack futex --live and ustack record work, without stacks; perf record -g takes its own"}
	switch {
	case f.Tracing.Deferred:
		return nil
	case f.Facts.UserStacks == facts.StacksNever:
		c.State, c.Required = Missing, true
		c.Found = "the kernel takes none: it was built without CONFIG_USER_STACKTRACE_SUPPORT (for arm64, Linux 6.12 has it, 6.1 has not)"
	case f.Facts.UserStacks == facts.StacksUnknown:
		c.State = Limited
		c.Found = "the kernel does not say whether it takes any (CONFIG_USER_STACKTRACE_SUPPORT)"
		c.Without = "if it does not: " + c.Without
	default:
		return nil
	}
	return []Check{c}
}

// compat checks whether there are programs whose system calls are not traced
// (ARCH_TRACE_IGNORE_COMPAT_SYSCALLS in the kernel).
func (f tracingChecks) compat() []Check {
	if f.Facts.Compat == 0 {
		return nil
	}
	return []Check{{Name: "32-bit programs", State: Limited,
		Found:   fmt.Sprintf("%d run; the kernel traces none of their system calls as syscalls:*", f.Facts.Compat),
		Without: "live and futex --live have nothing of them but with -e, for instance -e raw_syscalls:sys_enter or -e sched:sched_switch; their files are late",
	}}
}

// calls returns the system calls whose entry and exit are the events.
func calls(specs []instance.Spec) string {
	var list []string
	for _, s := range specs {
		name := strings.TrimPrefix(strings.TrimPrefix(s.Event, "sys_enter_"), "sys_exit_")
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

// deferred checks the option for stacks that are taken late.
func (f tracingChecks) deferred() Check {
	c := Check{Name: "deferred stacks", Found: "taken on return to user space"}
	if file := f.file(deferredOption); file != nil && !file.OK() {
		c.State, c.Without, c.Found = Missing, file.Without, f.wrong(file)
		f.permit(&c, file)
		if !file.Exists {
			c.Found = "the kernel has no option userstacktrace_delay"
		}
	}
	return c
}

// mappingEvents checks the events that announce files.
func (f tracingChecks) mappingEvents() Check {
	c := Check{Name: "mapping events"}
	var list []string
	for _, e := range f.Tracing.Mappings {
		list = append(list, e.String())
	}
	if c.Found = strings.Join(list, ", "); c.Found == "" {
		c.State, c.Found = Missing, "the kernel has none by a name that is known"
		c.Without = "a frame gets a file only if its process's mappings leave just one"
	}
	return c
}

// leftovers checks what killed processes have left.
func (f tracingChecks) leftovers() Check {
	t := f.Tracing
	c := Check{Name: "left-over instances", Found: fmt.Sprintf("none, of %d instances", len(t.Instances))}
	if len(t.Leftovers) > 0 {
		c.State = Limited
		c.Found = strings.Join(t.Leftovers, ", ") + ": made by processes that are dead"
		c.Without = "they take memory, and trace on; live removes them when it starts"
		c.Fix = "ustack clean"
	}
	return c
}
