package sideband

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// change is a change of memory that perf itself does not record.
type change uint8

const (
	unmapping      change = iota // munmap
	mapOver                      // mmap with MAP_FIXED; perf then reports the new mapping
	moving                       // mremap is called
	moved                        // mremap returns
	detaching                    // shmdt
	attachOver                   // shmat with SHM_REMAP
	sharing                      // clone with CLONE_VM and without CLONE_THREAD
	forking                      // fork, clone without CLONE_VM, or clone3
	naming                       // prctl with PR_SET_VMA_ANON_NAME, or PR_SET_MM
	switching                    // a step of a CPU on its way on or off
	unmapReturned                // munmap returns
	mapFailed                    // mmap does
	heapEnd                      // brk
	ringBegin                    // io_setup
	ringBegun                    // io_setup returns
	ringEnd                      // io_destroy
	withholding                  // madvise with MADV_DONTFORK
	withholdingAny               // process_madvise with MADV_DONTFORK
	compatCall                   // a call with the number of one of rawCalls
)

// tracepointSpec is a tracepoint that reports a change.
type tracepointSpec struct {
	change        change
	system, event string
	fields        []string
	// filter is evaluated by the kernel (Documentation/trace/events.rst).
	filter string
	// soon: its records must be handled at once.
	soon bool
	// many: some programs do so all the time. It goes into a separate ring, and a
	// loss there is no loss of perf's records.
	many bool
	// unseen is what goes unseen without it, for the user.
	unseen string
}

// tracepointSpecs are all known ones. System calls are reported when they are
// entered: their range is unknown from then on. The return counts too: for
// mremap, for the new place, for munmap, as what others map until then may go with it, and
// for mmap if it is an error, see taking.
var tracepointSpecs = []tracepointSpec{
	{change: unmapping, system: "syscalls", event: "sys_enter_munmap", many: true, fields: []string{"addr", "len"}, unseen: "munmap"},
	{change: mapOver, system: "syscalls", event: "sys_enter_mmap", many: true, fields: []string{"addr", "len", "flags"},
		filter: "flags & 0x10 && !(flags & 0x100000)", unseen: "mmap of data over code"},
	{change: unmapReturned, system: "syscalls", event: "sys_exit_munmap", many: true, fields: []string{"ret"}},
	{change: mapFailed, system: "syscalls", event: "sys_exit_mmap", many: true, filter: "ret < 0"},
	{change: moving, system: "syscalls", event: "sys_enter_mremap", many: true, fields: []string{"addr", "old_len", "new_len", "flags", "new_addr"}, unseen: "mremap"},
	{change: moved, system: "syscalls", event: "sys_exit_mremap", many: true, fields: []string{"ret"}, unseen: "mremap"},
	{change: detaching, system: "syscalls", event: "sys_enter_shmdt", many: true, fields: []string{"shmaddr"}, unseen: "shmdt"},
	{change: attachOver, system: "syscalls", event: "sys_enter_shmat", many: true, fields: []string{"shmaddr"}, filter: "shmflg & 0x4000", unseen: "shmat over code"},
	{change: heapEnd, system: "syscalls", event: "sys_enter_brk", many: true, fields: []string{"brk"}, filter: "brk != 0", unseen: "brk"},
	// Kernels without these three have no such calls. The upper half of an int is anything
	// (of prctl's option, too).
	{change: ringBegin, system: "syscalls", event: "sys_enter_io_setup", many: true},
	{change: ringBegun, system: "syscalls", event: "sys_exit_io_setup", many: true},
	{change: ringEnd, system: "syscalls", event: "sys_enter_io_destroy", many: true, fields: []string{"ctx"}},
	{change: withholding, system: "syscalls", event: "sys_enter_madvise", many: true, fields: []string{"start", "len_in"},
		filter: "behavior == 10 || behavior > 0xffffffff", unseen: "MADV_DONTFORK"},
	{change: withholdingAny, system: "syscalls", event: "sys_enter_process_madvise", many: true, filter: "behavior == 10 || behavior > 0xffffffff"},
	// io_uring's madvise does not say which one: of Linux 6.4, and before that.
	{change: withholdingAny, system: "io_uring", event: "io_uring_submit_req", many: true, filter: "opcode == 25"},
	{change: withholdingAny, system: "io_uring", event: "io_uring_submit_sqe", many: true, filter: "opcode == 25"},
	{change: sharing, system: "task", event: "task_newtask", fields: []string{"clone_flags"},
		filter: "clone_flags & 0x100 && !(clone_flags & 0x10000)", unseen: "clone(CLONE_VM)"},
	{change: forking, system: "syscalls", event: "sys_enter_clone", filter: "!(clone_flags & 0x100)"},
	{change: forking, system: "syscalls", event: "sys_enter_clone3"},
	{change: forking, system: "syscalls", event: "sys_enter_fork"}, // which not all machines have
	{change: naming, system: "syscalls", event: "sys_enter_prctl", fields: []string{"arg3", "arg4", "option"},
		filter: "(option == 0x53564d41 && arg2 == 0) || option == 35 || option > 0xffffffff", soon: true},
	{change: compatCall, system: "raw_syscalls", event: "sys_enter", many: true, fields: []string{"id"}}, // see rings.compatFilter
	{change: switching, system: "cpuhp", event: "cpuhp_enter", fields: []string{"cpu", "target"}, soon: true},
}

// FilesPerCPU is how many files a Band has open for each CPU: one for
// perf's own records, each of the tracepoints, mappings of data, and kprobes.
const FilesPerCPU = 1 + 22 + 1 + len(compatCalls)

// Tracepoint is a tracepoint that reports what perf has no record for.
type Tracepoint struct {
	spec   *tracepointSpec
	id     uint16
	fields []format.Field
}

// Tracepoints finds the tracepoints that a Band needs beside perf's own records.
// One that the kernel does not have (CONFIG_FTRACE_SYSCALLS is unset), or does
// not let us see, is left out; see Band.Unseen.
func Tracepoints(root *instance.Root) []Tracepoint {
	var list []Tracepoint
	for i := range tracepointSpecs {
		if tp, err := newTracepoint(root, &tracepointSpecs[i]); err == nil {
			list = append(list, tp)
		}
	}
	return list
}

func newTracepoint(root *instance.Root, spec *tracepointSpec) (Tracepoint, error) {
	found, err := format.Read(root.FS(), spec.system+"/"+spec.event)
	if err != nil {
		return Tracepoint{}, fmt.Errorf("reading the format of %s:%s: %w", spec.system, spec.event, err)
	}
	if len(found) != 1 || found[0].ID <= 0 || found[0].ID > 1<<16-1 {
		return Tracepoint{}, fmt.Errorf("reading the format of %s:%s: no such event", spec.system, spec.event)
	}
	tp := Tracepoint{spec: spec, id: uint16(found[0].ID)}
	for _, name := range spec.fields {
		f := found[0].Field(name)
		if f == nil || f.Loc != format.Inline || f.Array || f.Size != 8 && f.Size != 4 {
			return Tracepoint{}, fmt.Errorf("reading the format of %s:%s: no field %s of 4 or 8 bytes", spec.system, spec.event, name)
		}
		tp.fields = append(tp.fields, *f)
	}
	return tp, nil
}

// values decodes the fields of a record; ok is false if it is too short.
func (tp *Tracepoint) values(raw []byte, out []uint64) (_ []uint64, ok bool) {
	out = out[:0]
	for i := range tp.fields {
		f := &tp.fields[i]
		if f.Offset+f.Size > len(raw) {
			return out, false
		}
		if f.Size == 8 {
			out = append(out, binary.NativeEndian.Uint64(raw[f.Offset:]))
		} else {
			out = append(out, uint64(binary.NativeEndian.Uint32(raw[f.Offset:])))
		}
	}
	return out, true
}

// tracepointOf finds the tracepoint that a raw record is of (common_type).
func (rs *rings) tracepointOf(raw []byte) *Tracepoint {
	if len(raw) < 2 {
		return nil
	}
	id := binary.NativeEndian.Uint16(raw)
	for i := range rs.tracepoints {
		if rs.tracepoints[i].id == id {
			return &rs.tracepoints[i]
		}
	}
	return nil
}

// openTracepoints opens the tracepoints of a CPU. Rare ones go to its ring, among
// perf's own records, the others to another one, soft, nil if there are none.
// Tracepoints that cannot be opened are noted as unseen.
func (rs *rings) openTracepoints(r *ring, since tracefs.Time) (soft *ring) {
	rs.tracepoints = slices.DeleteFunc(rs.tracepoints, func(tp Tracepoint) bool {
		if tp.spec.change == compatCall && !rs.raw && !rs.x32 {
			return true
		}
		if !tp.spec.many {
			return rs.addTracepoint(r, &tp) != nil
		}
		if soft == nil {
			var err error
			if soft, err = rs.newSoftRing(r, &tp); err == nil {
				soft.Begin(since)
			}
			return err != nil
		}
		return rs.addTracepoint(soft, &tp) != nil
	})
	return soft
}

// newSoftRing opens a tracepoint with a ring. If the kernel does not grant the
// memory, it is smaller.
func (rs *rings) newSoftRing(like *ring, tp *Tracepoint) (*ring, error) {
	r, err := perf.OpenRing(like.CPU, like.Size(), func(size int) (int, error) {
		return rs.event(like, tp, size).Open(perf.OnCPU(like.CPU))
	})
	if err != nil {
		return nil, err
	}
	if err := perf.Enable(r.FD()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &ring{Ring: r, features: features{lost: like.features.lost}, soft: true}, nil
}

// addTracepoint opens a tracepoint whose records go to a ring.
func (rs *rings) addTracepoint(r *ring, tp *Tracepoint) error {
	e := rs.event(r, tp, r.Size())
	return r.add(&e, perf.OnCPU(r.CPU))
}

// event returns a tracepoint, not yet enabled, for a ring of a size.
func (rs *rings) event(r *ring, tp *Tracepoint, size int) perf.Event {
	filter := tp.spec.filter
	if tp.spec.change == compatCall {
		filter = rs.compatFilter()
	}
	e := perf.Event{Tracepoint: uint64(tp.id), Filter: filter, Raw: true, Disabled: true, CountLost: r.features.lost,
		Clock: rs.clock, Wakeup: size / 4}
	if tp.spec.soon {
		e.Wakeup = 0
	}
	return e
}

// reports reports whether a change is recorded on all CPUs.
func (rs *rings) reports(c change) bool {
	return slices.ContainsFunc(rs.tracepoints, func(tp Tracepoint) bool { return tp.spec.change == c })
}

// Unseen returns the changes of memory that this Band does not see, nil if it
// sees all. Names are then not proven.
func (b *Band) Unseen() []string { return b.rings.unseen() }

func (rs *rings) unseen() []string {
	var list []string
	for i := range tracepointSpecs {
		spec := &tracepointSpecs[i]
		seen := slices.ContainsFunc(rs.tracepoints, func(tp Tracepoint) bool { return tp.spec == spec })
		if !seen && spec.unseen != "" && !slices.Contains(list, spec.unseen) {
			list = append(list, spec.unseen)
		}
	}
	if rs.noData {
		list = append(list, "data over code")
	}
	return list
}

// checkUnseen makes all unsure from the beginning if the kernel never reports
// some changes.
func (b *Band) checkUnseen() {
	if !b.blind && len(b.Unseen()) > 0 {
		b.blind = true
		b.History.unseen(0, 0, 0, b.Now())
	}
}

// softGap notes that records of a soft ring are missing from a time on.
func (b *Band) softGap(cpu int, n uint64, from, t tracefs.Time) {
	b.found.Unseen += n
	b.unseen++
	b.underWay.begin(t)
	b.calls.missed(t)
	b.History.unseen(cpu, n, from, t)
}
