//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/syscalls"
)

// victim is set in the environment of the process that is looked at: this test again.
const victim = "USTACK_BPFFUTEX_VICTIM"

func TestMain(m *testing.M) {
	if plan := os.Getenv(victim); plan != "" {
		if err := play(plan); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// becomes begins a plan of a victim whose second thread executes a program: one with the rest of it.
const becomes = "becomes "

// play does what a victim is to do.
func play(plan string) error {
	rest, ok := strings.CutPrefix(plan, becomes)
	if !ok {
		return runVictim(plan)
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // the rest of it is for the other program
		return err
	}
	failed := make(chan error)
	go become(rest, failed)
	return <-failed
}

// become waits at a futex and executes this program again, in a thread that is not the first one of
// its process.
func become(plan string, failed chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		go become(plan, failed) // in another thread: this one is taken
		select {}
	}
	word := uint32(2)
	if ret, _ := futexCall(&word, int(syscalls.Wait)|private, 2, time.Millisecond); ret != -int(unix.ETIMEDOUT) {
		failed <- fmt.Errorf("a wait returned %d", ret)
		return
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Setenv(victim, plan)
	}
	if err == nil {
		err = unix.Exec(self, os.Args[:1], os.Environ())
	}
	failed <- err
}

// futexCall is a raw call of futex. It returns how the call ended, and how long it took.
func futexCall(addr *uint32, op, val int, timeout time.Duration) (ret int, took time.Duration) {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	begin := time.Now()
	r, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), uintptr(op), uintptr(val), uintptr(unsafe.Pointer(ts)), 0, 0)
	took = time.Since(begin)
	runtime.KeepAlive(ts)
	if errno != 0 {
		return -int(errno), took
	}
	return int(r), took
}

// requeueCall is a call of futex_requeue, which has its futexes in memory (struct futex_waitv). A
// kernel before 6.7 does not know it, which is a call, too.
func requeueCall(from, to *uint32) (ret int, took time.Duration) {
	const number, size32, wakes, moves = 456, 2, 1, 1
	type waiter struct {
		val, addr uint64
		flags, _  uint32
	}
	waiters := [2]waiter{
		{val: uint64(*from), addr: uint64(uintptr(unsafe.Pointer(from))), flags: size32 | private},
		{addr: uint64(uintptr(unsafe.Pointer(to))), flags: size32 | private},
	}
	begin := time.Now()
	r, _, errno := unix.Syscall6(number, uintptr(unsafe.Pointer(&waiters)), 0, wakes, moves, 0, 0)
	took = time.Since(begin)
	if errno != 0 {
		return -int(errno), took
	}
	return int(r), took
}

// private is FUTEX_PRIVATE_FLAG.
const private = 0x80

// runVictim makes the calls of a plan, "ADDRESSES WAITS TIMEOUT", on words of its own, when a
// line comes, and writes what it did: "wait|wake ADDR RETURN NANOSECONDS".
func runVictim(plan string) error {
	var addresses, waits int
	var timeout time.Duration
	words := strings.Fields(plan)
	addresses, _ = strconv.Atoi(words[0])
	waits, _ = strconv.Atoi(words[1])
	timeout, err := time.ParseDuration(words[2])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	words32 := make([]uint32, 16*addresses)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for range waits {
		for a := range addresses {
			w := &words32[16*a]
			*w = 2
			for _, c := range []struct {
				op, val int
				timeout time.Duration
			}{
				{int(syscalls.Wait) | private, 2, timeout},           // times out
				{int(syscalls.Wait) | private, 7, 0},                 // another value
				{int(syscalls.Wake) | private, 1, 0},                 // wakes none
				{int(syscalls.WaitBitset) | private, 2, time.Minute}, // with no bits: EINVAL
			} {
				ret, took := futexCall(w, c.op, c.val, c.timeout)
				kind := "wait"
				if c.op&^private == int(syscalls.Wake) {
					kind = "wake"
				}
				fmt.Printf("%s %d %d %d\n", kind, uintptr(unsafe.Pointer(w)), ret, took)
			}
			ret, took := requeueCall(w, &words32[16*a+1])
			fmt.Printf("wake %d %d %d\n", uintptr(unsafe.Pointer(w)), ret, took)
		}
	}
	fmt.Println("done")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n') // stays until it has been looked at
	if err == io.EOF {
		err = nil
	}
	return err
}

// needBPF skips the test where the programs cannot be loaded, or fails it if it must run.
func needBPF(t *testing.T) {
	t.Helper()
	switch mode := os.Getenv("USTACK_LIVE"); {
	case mode == "must":
		if err := Probe(); err != nil {
			t.Fatal(err)
		}
	case mode == "no" || os.Geteuid() != 0:
		t.Skip("not root, or USTACK_LIVE=no")
	default:
		if err := Probe(); err != nil {
			t.Skip(err)
		}
	}
}

// calls is what the victim did at an address.
type calls struct {
	timedOut, changed, failed, wakes uint64
	took                             time.Duration // of the waits that timed out
	long                             uint64        // of them, by the victim's clock
}

// looked is what came of looking at a victim.
type looked struct {
	log   map[uint64]*calls
	sums  map[uint64]*Sum
	waits []Wait
	other Sum
	loss  Loss
	ids   []uint32
	pid   int
}

// look has the programs look at a victim while it makes the calls of a plan.
func look(t *testing.T, opt Options, minWait time.Duration, plan string) *looked {
	t.Helper()
	return lookAt(t, opt, minWait, plan, func(*Source, int) {})
}

// lookAt calls then for the source and the victim when that has made its calls and before it ends.
func lookAt(t *testing.T, opt Options, minWait time.Duration, plan string, then func(s *Source, pid int)) *looked {
	t.Helper()
	needBPF(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// A signal of Go's runtime would end a wait with a timeout.
	cmd.Env, cmd.Stderr = append(os.Environ(), victim+"="+plan, "GODEBUG=asyncpreemptoff=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // the log shows whether it did all
	defer in.Close()
	opt.Filtered, opt.MinWait = true, minWait
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := errors.Join(s.Add(cmd.Process.Pid, Many), s.Start()); err != nil {
		t.Fatal(err)
	}
	l := &looked{sums: make(map[uint64]*Sum), ids: s.IDs(), pid: cmd.Process.Pid}
	if _, err := io.WriteString(in, strings.Repeat("\n", 1+strings.Count(plan, becomes))); err != nil {
		t.Fatal(err)
	}
	l.log = readLog(t, out, minWait)
	then(s, cmd.Process.Pid)
	l.read(t, s)
	return l
}

// readLog reads what the victim writes, until it is done.
func readLog(t *testing.T, from io.Reader, minWait time.Duration) map[uint64]*calls {
	t.Helper()
	log := make(map[uint64]*calls)
	lines := bufio.NewScanner(from)
	for lines.Scan() && lines.Text() != "done" {
		var kind string
		var addr uint64
		var ret int
		var took time.Duration
		if _, err := fmt.Sscan(lines.Text(), &kind, &addr, &ret, (*int64)(&took)); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		c := log[addr]
		if c == nil {
			c = new(calls)
			log[addr] = c
		}
		switch {
		case kind == "wake":
			c.wakes++
		case ret == -int(unix.ETIMEDOUT):
			c.timedOut++
			c.took += took
			if took >= minWait {
				c.long++
			}
		case ret == -int(unix.EAGAIN):
			c.changed++
		case ret == -int(unix.EINVAL):
			c.failed++
		default:
			t.Fatalf("%q is not what the victim expects", lines.Text())
		}
	}
	if err := lines.Err(); err != nil || len(log) == 0 {
		t.Fatalf("the victim's log has %d addresses, %v", len(log), err)
	}
	return log
}

// read reads all that the programs have.
func (l *looked) read(t *testing.T, s *Source) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var w Wait
	for {
		err := s.Next(&w, time.Now())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		w.Stack, w.Comm = append([]Frame(nil), w.Stack...), append([]byte(nil), w.Comm...)
		l.waits = append(l.waits, w)
	}
	met := make(map[Futex]bool)
	err := s.Sums(func(f Futex, sum *Sum) error {
		if int(f.TGID) != l.pid {
			return fmt.Errorf("a futex of process %d, only %d was selected", f.TGID, l.pid)
		}
		if met[f] {
			return fmt.Errorf("the futex %+v is met twice", f)
		}
		met[f] = true
		one := *sum
		one.Comm = bytes.Clone(sum.Comm)
		l.sums[f.Addr] = &one
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var lerr error
	if l.other, err = s.Others(); err == nil {
		l.loss, lerr = s.Loss()
	}
	if err := errors.Join(err, lerr); err != nil {
		t.Fatal(err)
	}
}

// longTimeout is a timeout of a victim: a wait with it takes no less.
const longTimeout = 12 * time.Millisecond

// TestLiveCounts: all calls of a victim are counted, by how they ended; the times are between
// its timeouts and its clock; and each long wait is there, with a stack.
func TestLiveCounts(t *testing.T) {
	const addresses, rounds, minWait = 3, 5, 10 * time.Millisecond
	l := look(t, Options{}, minWait, fmt.Sprintf("%d %d %v", addresses, rounds, longTimeout))
	sent := make(map[uint64]uint64)
	for i := range l.waits {
		w := &l.waits[i]
		sent[w.Addr]++
		if l.log[w.Addr] != nil && (w.To-w.From < tracefs.Time(minWait) || len(w.Stack) == 0 || w.Result != -int32(unix.ETIMEDOUT) || w.Val != 2 || w.TID != int32(l.pid) && w.TID <= 0) {
			t.Errorf("wait %+v", w)
		}
	}
	if l.loss.Waits+l.loss.Records+l.loss.Apart > 0 {
		t.Fatalf("loss of a few calls: %+v", l.loss)
	}
	missed := l.loss.Missed // the kernel did not run a program
	for addr, c := range l.log {
		s := l.sums[addr]
		if s == nil {
			t.Errorf("no sum of %#x", addr)
			continue
		}
		for _, n := range []struct {
			what      string
			got, want uint64
		}{
			{"timed out", s.Results.TimedOut, c.timedOut}, {"changed", s.Results.Changed, c.changed}, {"failed", s.Results.Failed, c.failed},
			{"wakes", s.Wakes, c.wakes}, {"slept", s.Slept, c.timedOut},
		} {
			if n.got > n.want || n.got+missed < n.want {
				t.Errorf("%#x: %d %s, want %d (%d missed)", addr, n.got, n.what, n.want, missed)
			}
		}
		if least := time.Duration(s.Slept) * longTimeout; time.Duration(s.Time) < least || time.Duration(s.Time) > c.took {
			t.Errorf("%#x: %v, want %v to %v", addr, time.Duration(s.Time), least, c.took)
		}
		t.Logf("%#x: %v by the kernel, %v by the victim", addr, time.Duration(s.Time), c.took)
		if sent[addr] != s.Slept || s.Longs != s.Slept {
			t.Errorf("%#x: %d of %d long waits were sent, counted %d", addr, sent[addr], s.Slept, s.Longs)
		}
	}
}

// TestLiveOverflow: what there is no room for is counted: futexes in the sum of others, long
// waits in the sums only.
func TestLiveOverflow(t *testing.T) {
	const addresses, rounds = 40, 1
	l := look(t, Options{Futexes: 4, Ring: os.Getpagesize()}, time.Millisecond, fmt.Sprintf("%d %d %v", addresses, rounds, 2*time.Millisecond))
	var want, got, longs uint64
	for _, c := range l.log {
		want += c.timedOut + c.changed + c.failed
	}
	for _, s := range l.sums {
		got += s.all()
		longs += s.Longs
	}
	if len(l.sums) > 4 || l.loss.Apart == 0 {
		t.Errorf("%d futexes kept apart, at most 4 wanted; %+v", len(l.sums), l.loss)
	}
	// The threads of the Go runtime wait, too.
	if all := got + l.other.all() + l.loss.Missed; all < want {
		t.Errorf("%d waits in all sums, want at least %d", all, want)
	}
	if longs += l.other.Longs; l.loss.Records == 0 || l.loss.Records+uint64(len(l.waits)) != longs {
		t.Errorf("%d long waits were sent and %d were not, want %d in all", len(l.waits), l.loss.Records, longs)
	}
}

// all returns how many waits a sum has.
func (s *Sum) all() uint64 {
	r := &s.Results
	return r.Woken + r.Changed + r.TimedOut + r.Interrupted + r.Requeued + r.Failed
}

// TestLiveWaitsLost: waits of threads that are too many are counted as missing.
func TestLiveWaitsLost(t *testing.T) {
	// The one place is taken by a thread of the Go runtime, or by the first wait.
	l := look(t, Options{Waiting: 1}, time.Millisecond, fmt.Sprintf("1 5 %v", 2*time.Millisecond))
	for addr, c := range l.log {
		var got uint64
		if s := l.sums[addr]; s != nil {
			got = s.all()
		}
		if all := got + l.loss.Waits + l.loss.Missed; all < c.timedOut+c.changed+c.failed {
			t.Errorf("%#x: %d waits counted, %+v, want %d", addr, got, l.loss, c.timedOut+c.changed+c.failed)
		}
	}
}

// TestLiveGone: nothing stays in the kernel after Close.
func TestLiveGone(t *testing.T) {
	l := look(t, Options{}, time.Millisecond, fmt.Sprintf("1 1 %v", time.Millisecond))
	if len(l.ids) < 4 {
		t.Fatalf("only the programs %v", l.ids)
	}
	const tries = 200 // the kernel frees programs when no CPU can be running them
	for range tries {
		if l.ids = Loaded(l.ids); len(l.ids) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("programs %v are still there", l.ids)
}

// TestLivePrune: futexes of a process that has ended make room for those of the next one, and no
// call is lost.
func TestLivePrune(t *testing.T) {
	needBPF(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Filtered: true, Futexes: 4, MinWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test of what stays is another one
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	var want, pruned uint64
	for round := range 2 {
		cmd := exec.Command(self)
		cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%d 1 1ms", victim, 20)), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(cmd.Start(), s.Add(cmd.Process.Pid, Many)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		for _, c := range readLog(t, out, time.Hour) {
			want += c.timedOut + c.changed + c.failed
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		pid := int32(cmd.Process.Pid)
		apart := 0
		err = s.Prune(func(f Futex) bool { return f.TGID == pid }, func(_ Futex, sum *Sum) {
			apart++
			pruned += sum.all()
		})
		if err != nil || apart != 4 {
			t.Errorf("process %d: %d futexes kept apart, %v", round, apart, err)
		}
	}
	left := 0
	if err := s.Sums(func(Futex, *Sum) error { left++; return nil }); err != nil || left > 0 {
		t.Errorf("%d futexes are left, %v", left, err)
	}
	other, err := s.Others()
	loss, lerr := s.Loss()
	if err := errors.Join(err, lerr); err != nil || other.all()+pruned+loss.Missed < want {
		t.Errorf("%d waits in the sums of ended processes, %d in the other one, want at least %d; %+v, %v", pruned, other.all(), want, loss, err)
	}
}
