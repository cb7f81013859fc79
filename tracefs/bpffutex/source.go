//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Supported: this build has the programs.
const Supported = true

// Options say which processes are looked at, and how.
type Options struct {
	// Filtered looks at the processes of Source.Add and their children; otherwise all are
	// looked at but this one.
	Filtered bool
	// MinWait is how long a wait is at least that is sent.
	MinWait time.Duration
	// Copy is how many bytes are copied of the stack of a long wait, unless Source.Copy says
	// otherwise for its process; 0 copies none.
	Copy uint32
	// Futexes, Waiting and Ring bound memory: how many futexes are kept apart, how many
	// threads that live can have waited, and the bytes of the ring buffer, a power of two and whole
	// pages. 0 is for the default.
	Futexes, Waiting, Ring int
}

// Source is the programs in the kernel, and what comes from them. It is for one goroutine; only
// Stop and Wake may be called by another.
type Source struct {
	programs *ebpf.Collection
	links    []link.Link
	reader   *ringbuf.Reader
	record   ringbuf.Record
	wakeup   *wakeup
}

// Open loads the programs, which do nothing before Start. It needs CAP_BPF and CAP_PERFMON, or
// root, and Linux 5.11 with BTF.
func Open(opt Options) (*Source, error) {
	s := new(Source)
	if err := s.open(&opt); err != nil {
		return nil, errors.Join(explain(err), s.Close())
	}
	return s, nil
}

func (s *Source) open(opt *Options) error {
	spec, err := s.spec(opt)
	if err != nil {
		return err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return fmt.Errorf("raising the limit of locked memory: %w", err)
	}
	if s.programs, err = ebpf.NewCollection(spec); err != nil {
		return fmt.Errorf("loading the BPF programs: %w", err)
	}
	if s.reader, err = ringbuf.NewReader(s.programs.Maps[programMapRecords]); err != nil {
		return fmt.Errorf("opening the ring buffer of the BPF programs: %w", err)
	}
	s.reader.SetDeadline(time.Unix(0, 0)) // Next waits by itself: see wakeup
	if s.wakeup, err = newWakeup(s.programs.Maps[programMapRecords].FD()); err != nil {
		return fmt.Errorf("waiting for the ring buffer of the BPF programs: %w", err)
	}
	return nil
}

// spec returns the programs for this kernel.
func (s *Source) spec(opt *Options) (*ebpf.CollectionSpec, error) {
	spec, err := loadProgram()
	if err != nil {
		return nil, err
	}
	for name, n := range map[string]int{programMapSums: opt.Futexes, programMapBegun: opt.Waiting, programMapRecords: opt.Ring} {
		if n > 0 {
			spec.Maps[name].MaxEntries = uint32(n)
		}
	}
	if !opt.Filtered {
		spec.Maps[programMapTargets].MaxEntries = 1
	}
	if opt.Copy > 0 {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return nil, fmt.Errorf("counting CPUs: %w", err)
		}
		spec.Maps[programMapCopies].MaxEntries = uint32(cpus)
		if opt.Ring == 0 {
			spec.Maps[programMapRecords].MaxEntries = copyRing
		}
	} else {
		for _, name := range [...]string{programMapSizes, programMapKnownStacks} {
			spec.Maps[name].MaxEntries = 1
		}
	}
	flag := func(is bool) uint32 {
		if is {
			return 1
		}
		return 0
	}
	var failed []error
	for name, value := range map[string]any{
		programVarOwn: uint32(os.Getpid()), programVarFiltered: flag(opt.Filtered), programVarArm64: flag(runtime.GOARCH == "arm64"),
		programVarMinWait: uint64(max(opt.MinWait, 0)), programVarCopying: flag(opt.Copy > 0), programVarFirstCopy: min(opt.Copy, MaxCopy),
	} {
		failed = append(failed, spec.Variables[name].Set(value))
	}
	return spec, errors.Join(failed...)
}

// copyRing is the bytes of the ring buffer if stacks are copied, unless others are given.
const copyRing = 4 << 20

// order is the order in which programs are attached: a return without an entry is counted, an
// entry without a return would be a wait that does not end.
var order = [...]string{programProgExited, programProgExeced, programProgNewtask, programProgLeave, programProgEnter}

// Start attaches the programs.
func (s *Source) Start() error {
	for _, name := range order {
		l, err := link.AttachTracing(link.TracingOptions{Program: s.programs.Programs[name]})
		if err != nil {
			return explain(fmt.Errorf("attaching the BPF program %s: %w", name, err))
		}
		s.links = append(s.links, l)
	}
	return nil
}

// explain says what is needed where the kernel refuses.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w (it takes root, or CAP_BPF and CAP_PERFMON; the kernel's lockdown refuses it in the mode confidentiality)", err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound), errors.Is(err, os.ErrNotExist), lacksHelper(err):
		return fmt.Errorf("%w (it takes Linux 5.11 with CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF)", err)
	}
	return err
}

// lacksHelper reports whether the kernel refuses a program because it lacks a helper: 5.10 has
// ring buffers and BTF, but no bpf_get_current_task_btf.
func lacksHelper(err error) bool {
	var refusal *ebpf.VerifierError
	return errors.As(err, &refusal) && slices.ContainsFunc(refusal.Log, func(line string) bool {
		return strings.Contains(line, "invalid func unknown#")
	})
}

// Many is a number of threads for Add that does not run out.
const Many = 1 << 40

// Add adds a process. It is looked at until so many threads of it have ended; threads that begin
// later are counted in.
func (s *Source) Add(pid int, threads uint64) error {
	err := s.programs.Maps[programMapTargets].Update(uint32(pid), threads, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("selecting process %d: %w", pid, err)
	}
	return nil
}

// Remove removes a process that has ended.
func (s *Source) Remove(pid int) error {
	err := s.programs.Maps[programMapTargets].Delete(uint32(pid))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("leaving out process %d: %w", pid, err)
	}
	return nil
}

// Copy sets how many bytes are copied of stacks of a process from now on.
func (s *Source) Copy(pid int32, bytes uint32) error {
	if err := s.programs.Maps[programMapSizes].Put(uint32(pid), min(bytes, MaxCopy)); err != nil {
		return fmt.Errorf("copying more of the stacks of process %d: %w", pid, err)
	}
	return nil
}

// placesBits is PLACES_BITS of futex.bpf.c.
const placesBits = 12

// Changes returns how many calls that can map code where there was other code have been made in a
// memory (Futex.Memory), Unsettled if one of them has not returned; it can have grown, or be
// Unsettled, without any.
func (s *Source) Changes(memory uint64) (n uint64, err error) {
	const mix = 0x9e3779b97f4a7c15 // change_of of futex.bpf.c
	var c struct{ Entries, Returns uint64 }
	if err := s.programs.Maps[programMapChanges].Lookup(uint32(memory*mix>>(64-placesBits)), &c); err != nil {
		return 0, fmt.Errorf("reading the changes of what is mapped: %w", err)
	}
	if c.Entries != c.Returns {
		return Unsettled, nil
	}
	return c.Entries, nil
}

// Wake has Next return, this time or next time, once it has read what there is: its time has come.
func (s *Source) Wake() error {
	if err := s.wakeup.now(); err != nil {
		return fmt.Errorf("waking the reader of the BPF programs: %w", err)
	}
	return nil
}

// Next reads the next wait into w. The error is io.EOF if there is none until a time, and what
// there is has been read.
func (s *Source) Next(w *Wait, until time.Time) error {
	for come := false; ; {
		err := s.reader.ReadInto(&s.record)
		if err == nil {
			return w.decode(s.record.RawSample)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("reading the ring buffer of the BPF programs: %w", err)
		}
		if come || !time.Now().Before(until) {
			return io.EOF
		}
		if come, err = s.wakeup.wait(until, s.pending); err != nil {
			return fmt.Errorf("waiting for the ring buffer of the BPF programs: %w", err)
		}
	}
}

// pending reports whether there is something to read.
func (s *Source) pending() bool { return s.reader.AvailableBytes() > 0 }

// batch is how many sums are read by one system call. A bucket of the map that has more is an
// error of the kernel: it has at least as many buckets as elements.
const batch = 256

// each calls fn for each futex with its sum, until it returns an error. A futex that is there all
// the time is met once. The sum is valid until fn returns.
func (s *Source) each(fn func(key *[keySize]byte, f Futex, sum *Sum) error) error {
	var cursor ebpf.MapBatchCursor
	var sum Sum
	keys, values := make([][keySize]byte, batch), make([][sumSize]byte, batch)
	for {
		n, err := s.programs.Maps[programMapSums].BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("reading the sums of the BPF programs: %w", err)
		}
		for i := range n {
			f, derr := decodeKey(keys[i][:])
			if derr == nil {
				derr = sum.decode(values[i][:])
			}
			if derr == nil {
				derr = fn(&keys[i], f, &sum)
			}
			if derr != nil {
				return derr
			}
		}
		if err != nil { // that was all
			return nil
		}
	}
}

// Sums calls fn for each futex, until it returns an error. The sum is valid until fn returns.
func (s *Source) Sums(fn func(Futex, *Sum) error) error {
	return s.each(func(_ *[keySize]byte, f Futex, sum *Sum) error { return fn(f, sum) })
}

// Prune removes the futexes that ended selects, whose processes must have ended, and calls fn for
// each with its last sum, which is valid until fn returns. There is room for others then.
func (s *Source) Prune(ended func(Futex) bool, fn func(Futex, *Sum)) error {
	var keys [][keySize]byte // not removed at once: the kernel would not meet all others
	err := s.each(func(key *[keySize]byte, f Futex, _ *Sum) error {
		if ended(f) {
			keys = append(keys, *key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var sum Sum
	sums := s.programs.Maps[programMapSums]
	for i := range keys {
		value, err := sums.LookupBytes(&keys[i])
		if err == nil && value != nil {
			err = errors.Join(sum.decode(value), sums.Delete(&keys[i]))
		}
		if err != nil {
			return fmt.Errorf("removing a sum of the BPF programs: %w", err)
		}
		if value == nil {
			continue
		}
		f, err := decodeKey(keys[i][:])
		if err != nil {
			return err
		}
		fn(f, &sum)
	}
	return nil
}

// Others returns the sum of the futexes that were too many to keep apart.
func (s *Source) Others() (Sum, error) {
	value, err := s.programs.Maps[programMapOthers].LookupBytes(uint32(0))
	if err != nil {
		return Sum{}, fmt.Errorf("reading the sums of the BPF programs: %w", err)
	}
	var sum Sum
	err = sum.decode(value)
	return sum, err
}

// Waiting calls fn for each wait that has not ended, once. While the programs are attached,
// waits that begin or end meanwhile may be met or not, and so may others.
func (s *Source) Waiting(fn func(Waiting)) error {
	var key, value []byte
	met := make(map[int32]bool) // the kernel begins anew after an element that has gone
	each := s.programs.Maps[programMapBegun].Iterate()
	for each.Next(&key, &value) {
		w, err := settled(key, value, s.programs.Maps[programMapBegun].LookupBytes)
		if err != nil {
			return err
		}
		if w.From != 0 && !met[w.TID] {
			met[w.TID] = true
			fn(w)
		}
	}
	if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("reading the open waits of the BPF programs: %w", err)
	}
	return nil
}

// settled decodes an element of the map begun. A thread may have begun another wait while the kernel
// copied the element, which then has parts of both: it is read until it is the same twice, or is of
// no wait, which it also counts as if its thread does not stop to wait anew.
func settled(key, value []byte, read func(key any) ([]byte, error)) (w Waiting, err error) {
	const most = 16
	for range most {
		if w, err = decodeWaiting(key, value); err != nil || w.From == 0 {
			return w, err
		}
		again, err := read(key)
		if err != nil {
			return w, fmt.Errorf("reading an open wait of the BPF programs: %w", err)
		}
		if again == nil { // its thread has ended
			return Waiting{}, nil
		}
		if bytes.Equal(value, again) {
			return w, nil
		}
		value = again
	}
	return Waiting{}, nil
}

// Loss returns what is missing so far.
func (s *Source) Loss() (l Loss, err error) {
	counters := s.programs.Maps[programMapCounters]
	for i, to := range []*uint64{&l.Waits, &l.Records, &l.Apart, &l.Before, &l.Children, &l.Requeues, &l.Copies, &l.Pages} {
		var each []uint64
		if err := counters.Lookup(uint32(i), &each); err != nil {
			return l, fmt.Errorf("reading the counters of the BPF programs: %w", err)
		}
		for _, n := range each {
			*to += n
		}
	}
	l.Missed, _ = s.Missed() // Linux 5.12
	return l, nil
}

// Missed returns Loss.Missed.
func (s *Source) Missed() (n uint64, err error) {
	for _, name := range [...]string{programProgEnter, programProgLeave} {
		stats, err := s.programs.Programs[name].Stats()
		if err != nil {
			return 0, fmt.Errorf("reading how often a BPF program did not run: %w", err)
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// IDs returns the numbers of the programs in the kernel.
func (s *Source) IDs() (list []uint32) {
	for _, p := range s.programs.Programs {
		if info, err := p.Info(); err == nil {
			if id, ok := info.ID(); ok {
				list = append(list, uint32(id))
			}
		}
	}
	return list
}

// Stop detaches the programs. What has been counted can be read until Close.
func (s *Source) Stop() error {
	var failed []error
	for i := len(s.links) - 1; i >= 0; i-- {
		failed = append(failed, s.links[i].Close())
	}
	s.links = nil
	return errors.Join(failed...)
}

// Close removes the programs and all that they have counted from the kernel.
func (s *Source) Close() error {
	err := s.Stop()
	if s.wakeup != nil {
		err = errors.Join(err, s.wakeup.close())
	}
	if s.reader != nil {
		err = errors.Join(err, s.reader.Close())
	}
	if s.programs != nil {
		s.programs.Close()
	}
	return err
}

// Loaded returns which of the programs with these numbers the kernel has.
func Loaded(ids []uint32) (list []uint32) {
	for _, id := range ids {
		if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
			_ = p.Close()
			list = append(list, id)
		}
	}
	return list
}

// Probe reports whether the programs can be loaded. The error says why not.
func Probe() error {
	s, err := Open(Options{Futexes: 1, Waiting: 1})
	if err != nil {
		return err
	}
	return s.Close()
}
