package proof

import (
	"ustack/filemap"
	"ustack/filemap/procmap"
)

// Address is what is known of a raw address of a stack: what the process had there at
// each moment at which the stack can have been made. An engine sets the fields and adds
// the moments (In, Nothing); Decide says what becomes of the frame.
type Address struct {
	// Addr is the address.
	Addr uint64
	// Time is Changing while the process executes a program, and Doubted if records
	// are missing and the process did not have the same there before and after.
	Time When
	// Sure is Afterwards if the moments may be of another process or another time.
	Sure Sure
	// Whole: all that the process had at the moments is known. Otherwise its code is.
	Whole bool
	// Sampled: what the process had between two moments is unknown, even if it had the
	// same at both. Otherwise the moments are the two ends of a time of which everything
	// is known.
	Sampled bool

	kind                 procmap.Kind // of what it was in first
	moments, seen, execs int32
	clash, blank, late   bool
}

// In adds a moment at which the process had something at the address. same reports
// whether that is the file, at the same offset, or the memory of the moments before.
// exec: code can run there; late: it was seen there later than at that moment. keep
// reports whether the mapping is the one that the frame gets.
func (a *Address) In(kind procmap.Kind, exec, late, same bool) (keep bool) {
	switch first := a.seen == 0; {
	case first:
		a.kind, keep = kind, true
	case !same:
		a.clash = true
	case exec && a.execs == 0 && !kind.HasFile():
		keep = true // code is made in memory that is not for code yet
	}
	a.moments++
	a.seen++
	if exec {
		a.execs++
	}
	a.late = a.late || late
	return keep
}

// Nothing adds a moment at which no mapping of the address is known. known: there was
// none, or none of code unless the Address is Whole.
func (a *Address) Nothing(known bool) {
	a.moments++
	a.blank = a.blank || !known
}

// Unknown adds moments of which nothing is known.
func (a *Address) Unknown() { a.Nothing(false) }

// Found reports whether the process had one and the same thing at the address whenever
// it had anything there.
func (a *Address) Found() bool { return a.seen > 0 && !a.clash }

// Always reports whether the process had something at the address at all moments.
func (a *Address) Always() bool { return a.seen == a.moments && a.seen > 0 }

// Missing reports whether no mapping of the address is known at any of the moments.
func (a *Address) Missing() bool { return a.seen == 0 }

const (
	// minUser is the lowest address that programs have: the lowest page is never
	// mapped.
	minUser = 4096
	// maxUser is above all that user space can have on our machines: 56 bits on
	// x86-64 with five levels of page tables, 52 on arm64. What is between it and
	// the kernel's half is not canonical.
	maxUser = 1 << 56
)

// IsUser reports whether an address can be one of user space.
func IsUser(addr uint64) bool { return minUser <= addr && addr < maxUser }

// facts are what the rules for raw addresses are about.
type facts uint16

const (
	notUser  facts = 1 << iota // user space cannot have the address
	missing                    // no mapping of it is known
	vsyscall                   // it is in the vsyscall page
	changing                   // the process was executing a program
	doubted                    // records are missing
	clash                      // there were different things
	unseen                     // what was there is unknown
	whole                      // all that the process had is known
	special                    // it is in memory that the kernel gives processes
	memory                     // it is in memory without a file
	data                       // it is in no code
	sure                       // there was code for certain
	always   facts = 0
)

// addressRule is what facts do to a frame with a raw address.
type addressRule struct {
	by   Statement // the step of the proof that says so
	when facts     // all of which must hold
	does effect
}

// addressRules are in order: the first one of which the facts hold decides.
var addressRules = [...]addressRule{
	{NotUser, notUser | missing, drop(filemap.NoVMA)},
	{Fileless, vsyscall, drop(filemap.NoVMA)},
	{Executing, changing, drop(filemap.Ambiguous)},
	{Unrecorded, doubted, drop(filemap.Lost)},
	{Unsettled, clash, drop(filemap.Ambiguous)},
	{Unseen, unseen, drop(filemap.NoAddressSpace)},
	{Unmapped, missing | whole, drop(filemap.NoVMA)},
	{Codeless, missing, drop(filemap.NotCode)},
	{Fileless, special, drop(filemap.VDSO)},
	{Fileless, memory, drop(filemap.Anonymous)},
	{Data, data, drop(filemap.NotCode)},
	{Mapped, sure, name},
	{MappedSometime, always, name},
}

// Decide decides what becomes of a frame with a raw address. The order of the rules is
// here and nowhere else: the engines only say what was there at which moments, and how
// well that is known.
//
//	           an exact history (timeline)           a dump (observed)
//	moments    both ends of the time that a stamp    each reading that the stack can be
//	           can mean                              of, or be next to
//	Time       all three                             Known: it does not say when a
//	                                                 program was executed
//	Sure       the process of the thread is known,   it was read before and after
//	           no record is missing, the clock is
//	           the same
//	Whole      no: data is not reported              yes
//	Sampled    no: each change is reported           yes
//
// For both:
//
//   - An address that user space cannot have is in nothing, whenever that is; the
//     vsyscall page is in the kernel's half, the same in all processes. An address in
//     whose place there was nothing at any moment is in nothing, too, if all mappings are
//     known; if only code is, it is no code.
//   - What is not known is not nothing: where the moments are of another time or
//     process, or one of them is unknown, an address without a mapping has no reason but
//     that.
//   - A frame gets a file only if at all moments at which the process had anything there
//     it had that file, at that offset, and if at one of them it was code. A file that
//     was deleted meanwhile is still that file, and memory that has grown the
//     same memory; a mapping of shared memory without a name in a file system is memory,
//     although the kernel has a file for it (/dev/zero, SysV).
//   - The file is verified if the moments are known to be of that process and time, and
//     it was there as code. An exact history may lack it at one moment: nothing else was
//     there. A dump verifies none: another file can have come to the same place and gone
//     again between its readings, as plugins do.
func (a *Address) Decide() Verdict {
	known := a.facts()
	i := 0
	for addressRules[i].when&^known != 0 { // the last one holds always
		i++
	}
	r := &addressRules[i]
	v := Verdict{Act: r.does.act, By: r.by, Reason: r.does.reason}
	if v.Act == Name {
		v.Trust = trusts[a.sure()]
	}
	return v
}

// facts are those that hold.
func (a *Address) facts() (f facts) {
	if a.seen > 0 {
		return a.place() | a.time()
	}
	if !IsUser(a.Addr) {
		f = notUser
	}
	if a.moments == 0 || a.blank || a.Sure != Proven {
		f |= unseen
	}
	if a.Whole {
		f |= whole
	}
	return f | missing | a.time()
}

// time are the facts about the time of the stack.
func (a *Address) time() facts {
	switch a.Time {
	case Changing:
		return changing
	case Doubted:
		return doubted
	}
	return 0
}

// place are the facts about what was there.
func (a *Address) place() (f facts) {
	if a.clash {
		f = clash
	}
	if a.blank {
		f |= unseen
	}
	switch {
	case a.kind.HasFile():
	case a.kind == procmap.Vsyscall:
		f |= vsyscall | memory
	case a.kind == procmap.VDSO, a.kind == procmap.Special:
		f |= special | memory
	default:
		f |= memory
	}
	if a.execs == 0 {
		f |= data
	}
	if a.sure() == Proven {
		f |= sure
	}
	return f
}

// sure is how well a file is known to have been there as code.
func (a *Address) sure() Sure {
	if a.Sure != Proven || a.late || a.Sampled || a.execs < a.seen {
		return Afterwards
	}
	return Proven
}
