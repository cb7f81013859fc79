package resolve_test

import (
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// reachTrace has a wait whose stack stays in the C library, one that is whole, and a
// stack that is of no wait.
const reachTrace = `              ab-71      [000] .....     1.000001: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
              ab-71      [000] .....     1.000002: <user stack trace>
 =>  <0000000000001000> : path=/lib/libc.so.6
              ab-71      [000] .....     1.000003: sys_futex -> 0x0
              ab-71      [000] .....     1.000004: <user stack trace>
 =>  <0000000000001000> : path=/lib/libc.so.6
              cd-72      [001] .....     1.000005: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
              cd-72      [001] .....     1.000006: <user stack trace> unwound=registers,cfi*2 end=root
 =>  <0000000000001000> : path=/lib/libc.so.6
 =>  <0000000000002000> : path=/bin/app
 =>  <0000000000003000> : path=/lib/libc.so.6
              cd-72      [001] .....     1.000007: sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)
              cd-72      [001] .....     1.000008: <user stack trace>
 =>  <0000000000001000> : path=/bin/app
`

// reachOf is how far the stacks of a trace go.
func reachOf(t *testing.T, trace string, opt resolve.Options) (*resolve.Reach, string) {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	b := &tracefs.Batch{Text: []byte(trace)}
	if _, err := scan.Scan(b, text.MoreNever); err != nil {
		t.Fatal(err)
	}
	r := resolve.New(opt)
	r.Add(b)
	r.End()
	if r.Next() == nil {
		t.Fatal("no batch")
	}
	return r.Totals().Reach()
}

// TestReachOfTrace: of waits, where their events are at hand, else of what was unwound, and
// if nothing was, of all stacks.
func TestReachOfTrace(t *testing.T) {
	waits := resolve.Reach{Stacks: 2, Unwound: 1, Application: 1, Root: 1, End: "libc.so.6", Ends: 1}
	unwound := resolve.Reach{Stacks: 1, Unwound: 1, Application: 1, Root: 1}
	all := resolve.Reach{Stacks: 4, Application: 2, End: "libc.so.6", Ends: 2}
	kernel := strings.ReplaceAll(reachTrace, " unwound=registers,cfi*2 end=root", "")
	for _, c := range []struct {
		trace string
		opt   resolve.Options
		of    string
		want  resolve.Reach
	}{
		{reachTrace, resolve.Options{Stitch: true}, resolve.OfWaits, waits},
		{reachTrace, resolve.Options{Waits: true}, resolve.OfWaits, waits},
		{reachTrace, resolve.Options{}, resolve.OfUnwound, unwound},
		{kernel, resolve.Options{}, resolve.OfAll, all},
	} {
		got, of := reachOf(t, c.trace, c.opt)
		if got == nil || *got != c.want || of != c.of {
			t.Errorf("got %+v of %s; want %+v of %s", got, of, c.want, c.of)
		}
	}
}

// TestReachAfterLoss: where records are lost between a wait and a stack, the stack can be
// another call's.
func TestReachAfterLoss(t *testing.T) {
	lost := strings.ReplaceAll(reachTrace, "              ab-71      [000] .....     1.000002", "CPU:0 [LOST 3 EVENTS]\n              ab-71      [000] .....     1.000002")
	got, _ := reachOf(t, lost, resolve.Options{Waits: true})
	if got == nil || got.Stacks != 1 {
		t.Errorf("got %+v, want the other wait", got)
	}
}

// TestReachNoFiles: stacks whose files are not known say nothing.
func TestReachNoFiles(t *testing.T) {
	if got, _ := reachOf(t, strings.ReplaceAll(reachTrace, " : path=/", " : /"), resolve.Options{Stitch: true}); got != nil {
		t.Errorf("got %+v", got)
	}
}

// TestApplication: code of a JIT compiler is an application's, the vDSO and data are not.
func TestApplication(t *testing.T) {
	for _, c := range []struct {
		o    resolve.Attribution
		want bool
	}{
		{resolve.Named(&filemap.File{Path: "/bin/app"}, filemap.Verified), true},
		{resolve.Named(&filemap.File{Path: "/lib/ld-linux-x86-64.so.2"}, filemap.Verified), false},
		{resolve.Attribution{Memory: &filemap.Memory{Exec: true}, Reason: filemap.Anonymous}, true},
		{resolve.Attribution{Memory: &filemap.Memory{Exec: true}, Reason: filemap.VDSO}, false},
		{resolve.Attribution{Memory: &filemap.Memory{}, Reason: filemap.NotCode}, false},
		{resolve.Unnamed(filemap.NoAddressSpace), false},
	} {
		if got := c.o.Application(); got != c.want {
			t.Errorf("%+v: application is %t", c.o, got)
		}
	}
}
