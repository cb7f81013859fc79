package tasks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/instance"
	"ustack/tracefs/raw"
)

// Kind is what an event is about.
type Kind uint8

// The calls whose entries and returns are events, and the events of tasks. Each has its
// arguments in Event.Args.
const (
	Map         Kind = iota // mmap: address, length, prot, flags
	Unmap                   // munmap: address, length
	Protect                 // mprotect, pkey_mprotect: address, length
	Move                    // mremap: address, old length, new length, flags, new address
	Page                    // remap_file_pages: address, length
	Attach                  // shmat: flags
	Detach                  // shmdt
	Exec                    // execve, execveat
	Clone                   // fork, vfork, clone, clone3
	KeepForFork             // madvise(MADV_DONTFORK), process_madvise
	Foreign                 // a 32-bit call of a 64-bit process, or one of the x32 ABI, see foreign.go: number, arguments

	Born     // task_newtask: the new task, clone_flags
	Executed // sched_process_exec: the PID, the TID before
	Ended    // sched_process_exit
)

// Event is what happened at a time in a task.
type Event struct {
	Time tracefs.Time
	TID  int
	Kind Kind
	// Return is set for the return of a call; Args[0] is then its result.
	Return bool
	Args   [5]uint64
}

// spec is a tracepoint and the fields that are the arguments of its event.
type spec struct {
	kind          Kind
	ret           bool
	system, event string
	fields        []string
	filter        string
	// optional: not all kernels have it, which then cannot do what it reports.
	optional bool
}

// dontFork is a filter: MADV_DONTFORK, with anything in the upper half of the int.
const dontFork = "behavior == 10 || behavior > 0xffffffff"

// specs are the tracepoints (include/trace/events/{task,sched}.h, kernel/trace/trace_syscalls.c).
// mmap without PROT_EXEC and without MAP_FIXED changes no code: it takes a free place.
var specs = []spec{
	{kind: Born, system: "task", event: "task_newtask", fields: []string{"pid", "clone_flags"}},
	{kind: Executed, system: "sched", event: "sched_process_exec", fields: []string{"pid", "old_pid"}},
	{kind: Ended, system: "sched", event: "sched_process_exit"},
	call(Map, "mmap", "prot & 4 || flags & 0x10", "addr", "len", "prot", "flags"),
	call(Unmap, "munmap", "", "addr", "len"),
	call(Protect, "mprotect", "prot & 4", "start", "len"),
	call(Protect, "pkey_mprotect", "prot & 4", "start", "len").rare(),
	call(Move, "mremap", "", "addr", "old_len", "new_len", "flags", "new_addr"),
	call(Page, "remap_file_pages", "", "start", "size").rare(),
	call(Attach, "shmat", "", "shmflg").rare(),
	call(Detach, "shmdt", "").rare(),
	call(Exec, "execve", ""),
	call(Exec, "execveat", ""),
	call(Clone, "clone", ""),
	call(Clone, "clone3", "").rare(),
	call(Clone, "fork", "").rare(),
	call(Clone, "vfork", "").rare(),
	call(KeepForFork, "madvise", dontFork).rare(),
	call(KeepForFork, "process_madvise", dontFork).rare(),
}

// call is the entry into a system call.
func call(kind Kind, name, filter string, fields ...string) spec {
	return spec{kind: kind, system: "syscalls", event: "sys_enter_" + name, filter: filter, fields: fields}
}

// rare makes the spec optional.
func (s spec) rare() spec {
	s.optional = true
	return s
}

// returns is the return of a call, false if it is of no interest.
func (s *spec) returns() (spec, bool) {
	const enter = "sys_enter_"
	if s.system != "syscalls" || s.kind == Clone || s.kind == KeepForFork {
		return spec{}, false
	}
	return spec{kind: s.kind, ret: true, system: s.system, event: "sys_exit_" + s.event[len(enter):], fields: []string{"ret"}, optional: s.optional}, true
}

// allSpecs are the specs with the returns of calls.
func allSpecs() []spec {
	all := append(slices.Clone(specs), foreignSpecs()...)
	for i := range specs {
		if back, ok := specs[i].returns(); ok {
			all = append(all, back)
		}
	}
	return all
}

// Events returns the events to feed Add with, as the kernel has them.
func Events(root *instance.Root) ([]instance.Event, error) {
	var list []instance.Spec
	for _, s := range allSpecs() {
		list = append(list, instance.Spec{System: s.system, Event: s.event, Filter: s.filter, Optional: s.optional})
	}
	sel, err := root.Select(list)
	return sel.Events, err
}

// Decoder makes Events of raw records.
type Decoder struct{ byID map[uint16]decoding }

// decoding is how the records of an event are laid out.
type decoding struct {
	spec   spec
	fields []format.Field
}

// NewDecoder returns a Decoder for records that are laid out as formats say.
func NewDecoder(formats []*format.Event) (*Decoder, error) {
	d := &Decoder{byID: make(map[uint16]decoding)}
	for _, s := range allSpecs() {
		i := slices.IndexFunc(formats, func(e *format.Event) bool { return e.System == s.system && e.Name == s.event })
		if i < 0 && s.optional {
			continue
		}
		if i < 0 {
			return nil, fmt.Errorf("reading the format of %s:%s: no such event", s.system, s.event)
		}
		if err := d.add(s, formats[i]); err != nil {
			return nil, fmt.Errorf("reading the format of %s:%s: %w", s.system, s.event, err)
		}
	}
	return d, nil
}

func (d *Decoder) add(s spec, e *format.Event) error {
	if e.ID <= 0 || e.ID > 1<<16-1 {
		return errors.New("it has no number")
	}
	into := decoding{spec: s}
	for _, name := range s.fields {
		f := e.Field(name)
		if f == nil || f.Loc != format.Inline || f.Array != (name == argsField) || f.Size != 4 && f.Size%8 != 0 {
			return fmt.Errorf("no field %s of 4 or 8 bytes", name)
		}
		into.fields = append(into.fields, *f)
	}
	d.byID[uint16(e.ID)] = into
	return nil
}

// Decode takes a record apart. ok is false if it is of no event that is of interest, or too
// short.
func (d *Decoder) Decode(r *raw.Record) (e Event, ok bool) {
	into, ok := d.byID[r.ID]
	if !ok {
		return e, false
	}
	e = Event{Time: r.Time, TID: int(r.TID), Kind: into.spec.kind, Return: into.spec.ret}
	args := e.Args[:0]
	for i := range into.fields {
		f := &into.fields[i]
		if f.Offset+f.Size > len(r.Data) {
			return e, false
		}
		if f.Size == 4 {
			args = append(args, uint64(binary.NativeEndian.Uint32(r.Data[f.Offset:])))
		}
		for at := f.Offset; at+8 <= f.Offset+f.Size && len(args) < cap(args); at += 8 {
			args = append(args, binary.NativeEndian.Uint64(r.Data[at:]))
		}
	}
	return e, r.TID > 0 && (e.Kind != Foreign || isForeign(&e))
}
