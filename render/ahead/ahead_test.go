package ahead_test

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/ahead"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/sched"
	"ustack/tracefs/syscalls"
)

const (
	first = `              ab-71      [000] .....     1.000001: sys_futex(uaddr: 0x55145b0801c0, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)
              ab-71      [000] d..2.     1.000002: sched_switch: prev_comm=ab prev_pid=71 prev_prio=120 prev_state=S ==> next_comm=cd next_pid=72 next_prio=98
              cd-72      [000] .....     1.000003: tracing_mark_write: sched_switch
              cd-72      [000] .....     1.000004: sched_waking: comm=ab pid=71 prio=120 target_cpu=000
              cd-72      [000] .....     1.000005: sys_enter: NR 202 (1, 2, 3, 4, 5, 6)
              cd-72      [000] .....     1.000006: sched_switch: of no form
              cd-72      [000] .....     1.000007: sys_exit_futex: 0x1
              cd-72      [000] .....     1.000008: task_newtask: pid=73 comm=cd clone_flags=3d0f00 oom_score_adj=0
`
	second = `              cd-72      [000] .....     2.000001: page_fault_user: address=0x1 ip=0x2 error_code=0x4
              cd-72      [000] .....     2.000002: sys_futex -> 0x0
`
)

// batchesOf returns the batches of a trace.
func batchesOf(t *testing.T, text string) (list []*resolve.Pending) {
	t.Helper()
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	res := resolve.New(resolve.Options{Sources: 1})
	for err == nil {
		b := new(tracefs.Batch)
		if err = trace.Next(b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		res.Add(b)
	}
	res.End()
	for h := res.Next(); h != nil; h = res.Next() {
		list = append(list, h)
	}
	return list
}

// TestEvents: what is decoded ahead is what parsing each event gives, in a batch that has
// the memory of another one, too, and for one time only.
func TestEvents(t *testing.T) {
	var calls, tasks, neither int
	pool := ahead.NewPool()
	for _, text := range []string{first, second, first} {
		for _, h := range batchesOf(t, text) {
			if pool.Take(h) != nil {
				t.Error("a batch has events before it is decoded")
			}
			pool.Decode(h)
			events := pool.Take(h)
			if pool.Take(h) != nil {
				t.Error("the events of a batch are there twice")
			}
			for i := range h.Records {
				rec := &h.Records[i]
				if rec.Kind != tracefs.KindEvent {
					continue
				}
				body := h.Text[rec.Body:rec.End]
				var sys syscalls.Event
				var task sched.Event
				isCall, isTask := syscalls.Parse(body, &sys), sched.Parse(body, &task)
				switch call, other := events.Event(i); {
				case (call != nil) != isCall, call != nil && *call != sys:
					t.Errorf("%q is the call %+v, not %+v", body, call, sys)
				case (other != nil) != isTask, other != nil && !reflect.DeepEqual(*other, task):
					t.Errorf("%q is the event %+v, not %+v", body, other, task)
				case call != nil:
					calls++
				case other != nil:
					tasks++
				default:
					neither++
				}
			}
			pool.Put(events)
		}
	}
	if calls != 5 || tasks != 6 || neither != 7 {
		t.Errorf("%d calls, %d tasks, %d of neither", calls, tasks, neither)
	}
}
