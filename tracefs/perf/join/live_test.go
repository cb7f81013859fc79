package join_test

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/perf/join"
	"ustack/tracefs/ring"
)

// side is the trace of the test's calls, with exact times.
type side struct {
	in     *instance.Instance
	pipe   *instance.RawPipe
	layout ring.Layout
	enter  *format.Event
	exit   *format.Event
	stack  *format.Event
	seen   []traced
	lost   uint64
}

// traced is a record of the trace, or a loss.
type traced struct {
	join.Head
	kind int // 0 for a loss, else the number of the event
	val  uint32
}

// openTrace traces futex calls with val above 1000000, with stock stacks, into small
// buffers.
func openTrace(t *testing.T) *side {
	t.Helper()
	root, err := instance.Find("")
	if err != nil {
		t.Skipf("tracefs is needed: %v", err)
	}
	in, err := root.Create()
	if err != nil {
		t.Skipf("a tracing instance is needed: %v", err)
	}
	s := &side{in: in}
	t.Cleanup(func() {
		if s.pipe != nil {
			_ = s.pipe.Close()
		}
		if err := in.Remove(); err != nil {
			t.Error(err)
		}
	})
	events := []instance.Event{{System: "syscalls", Name: "sys_enter_futex", Filter: "val > 1000000"}, {System: "syscalls", Name: "sys_exit_futex"}}
	if err := errors.Join(in.Configure(instance.Config{BufferKB: 64}), in.SetFilters(events), in.Enable(events)); err != nil {
		t.Skipf("the events of futex are needed: %v", err)
	}
	if _, err := in.SetStacks(instance.StockStacks); err != nil {
		t.Fatal(err)
	}
	s.formats(t, root)
	if s.pipe, err = in.RawPipe(instance.RawOptions{Subbuf: s.layout.Size, Copy: true}); err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *side) formats(t *testing.T, root *instance.Root) {
	t.Helper()
	for name, to := range map[string]**format.Event{"syscalls/sys_enter_futex": &s.enter, "syscalls/sys_exit_futex": &s.exit, "ftrace/user_stack": &s.stack} {
		found, err := format.Read(os.DirFS(root.Path()), name)
		if err != nil || len(found) != 1 {
			t.Skipf("the format of %s is needed: %v", name, err)
		}
		*to = found[0]
	}
	page, err := os.ReadFile(root.Path() + "/events/header_page")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := format.ParsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	s.layout.Page = *parsed
}

// read reads what the buffers have.
func (s *side) read(t *testing.T) {
	s.pipe.Hold()
	defer s.pipe.Release()
	for i, cpu := range s.pipe.CPUs() {
		for {
			data, fresh, err := s.pipe.Next(i)
			if err != nil {
				t.Fatal(err)
			}
			if data == nil || !fresh {
				break
			}
			s.page(t, int(cpu), data)
		}
	}
}

func (s *side) page(t *testing.T, cpu int, data []byte) {
	var p ring.Page
	if err := p.Reset(&s.layout, data); err != nil {
		t.Fatal(err)
	}
	if p.Missed {
		s.lost += max(p.Lost, 1)
		s.seen = append(s.seen, traced{Head: join.Head{CPU: cpu}})
	}
	put := binary.NativeEndian
	for p.Next() {
		id := int(put.Uint16(p.Record))
		r := traced{kind: id, Head: join.Head{CPU: cpu, Time: tracefs.Time(p.Time), TID: int(put.Uint32(p.Record[4:]))}}
		switch id {
		case s.stack.ID:
			last := len(s.seen) - 1
			if last >= 0 && s.seen[last].TID == r.TID && s.seen[last].CPU == cpu {
				s.seen[last].IP = put.Uint64(p.Record[s.stack.Field("caller").Offset:])
			}
			continue
		case s.enter.ID:
			r.val = put.Uint32(p.Record[s.enter.Field("val").Offset:])
			r.Tracepoint = uint64(id)
		}
		s.seen = append(s.seen, r)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
}

// hammer makes futex calls that return at once, each with another val, in runs that the
// buffers have room for and in others that they do not. reads counts the readings of the
// buffers.
func hammer(calls int, reads *atomic.Int64, ready *sync.WaitGroup, start <-chan bool, tids chan<- int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tids <- unix.Gettid()
	ready.Done()
	<-start
	var word uint32
	pause := unix.Timespec{Nsec: 1e6}
	for i := range calls {
		if at := i % 1100; at == 0 || at == 100 {
			for want := reads.Load() + 2; reads.Load() < want; {
				_ = unix.Nanosleep(&pause, nil)
			}
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), 128, uintptr(1000001+i), 0, 0, 0)
	}
}

// TestLiveJoin: of two threads that call futex in a loop both sides lose records, and
// each pair is of one call: the sample's registers have the val of the trace.
func TestLiveJoin(t *testing.T) {
	valReg := map[string]int{"amd64": 1, "arm64": 2}[runtime.GOARCH]
	if valReg == 0 {
		t.Skip("no registers are known of", runtime.GOARCH)
	}
	trace := openTrace(t)
	sampler, err := perf.OpenSampler(perf.SamplerOptions{StackBytes: 512, RingSize: 128 << 10,
		Tracepoints: []perf.Tracepoint{{ID: uint64(trace.enter.ID), Filter: "val > 1000000"}}})
	if err != nil {
		t.Skip(err)
	}
	defer sampler.Close()
	const calls, threads = 11_000, 2
	var ready, done sync.WaitGroup
	var reads atomic.Int64
	start, tids := make(chan bool), make(chan int, threads)
	for range threads {
		ready.Add(1)
		done.Go(func() { hammer(calls, &reads, &ready, start, tids) })
	}
	ready.Wait()
	ours := map[int]bool{<-tids: true, <-tids: true}
	close(start)
	ended := make(chan bool)
	go func() {
		done.Wait()
		close(ended)
	}()
	type sample struct {
		join.Head
		val uint32
	}
	var samples []sample
	var lost uint64
	for more := true; more; {
		select {
		case <-ended:
			more = false
			if err := trace.in.Stop(); err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Millisecond):
		}
		sampler.Read(func(s *perf.StackSample) {
			val, _ := s.Regs.Get(valReg)
			pc, _ := s.Regs.PC()
			samples = append(samples, sample{join.Head{TID: s.TID, CPU: s.CPU, Time: s.Time, Tracepoint: s.Tracepoint, IP: pc}, uint32(val)})
		}, func(l perf.Loss) { lost += l.Records })
		trace.read(t)
		reads.Add(1)
	}
	j := join.New[uint32, uint32](join.Options{Keep: time.Hour})
	records, addresses := 0, 0
	for i := range trace.seen {
		switch r := &trace.seen[i]; {
		case r.kind == 0:
			j.Lost(r.CPU)
		case r.kind == trace.enter.ID && ours[r.TID]:
			records++
			if r.IP != 0 {
				addresses++
			}
			j.Enter(r.Head, r.val)
		case r.kind == trace.exit.ID:
			j.Exit(r.Head)
		default:
			j.Saw(r.CPU, r.Time)
		}
	}
	for _, s := range samples {
		if ours[s.TID] {
			j.Sample(s.Head, s.val)
		}
	}
	pairs := 0
	j.End(func(call, sample uint32) {
		pairs++
		if call != sample {
			t.Errorf("the call with val %d gets the sample with val %d", call, sample)
		}
	}, func(uint32) {})
	t.Logf("%d calls: %d records in the trace, %d with an address, %d lost; %d samples, %d lost; %d pairs, %+v",
		calls*threads, records, addresses, trace.lost, len(samples), lost, pairs, j.Counts())
	if trace.lost == 0 || lost == 0 || pairs == 0 || addresses == 0 {
		t.Error("both sides should lose something, and keep something")
	}
}
