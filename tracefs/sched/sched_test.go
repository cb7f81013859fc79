package sched

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		body string
		want Event
		prev string
	}{
		{"sched_switch: prev_comm=contend prev_pid=513 prev_prio=120 prev_state=R+ ==> next_comm=gomutex next_pid=518 next_prio=120\n",
			Event{Kind: Switch, TID: 518, State: 'R', Prio: 120, Comm: []byte("gomutex")}, "contend"},
		// Names may look like anything.
		{"sched_switch: prev_comm= prev_state=X prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=a next_pid=9 b next_pid=7 next_prio=120\n",
			Event{Kind: Switch, TID: 7, State: 'S', Prio: 120, Comm: []byte("a next_pid=9 b")}, " prev_state=X"},
		{"sched_switch:         a:14 [120] S ==> b c:2 [120]\n", Event{Kind: Switch, TID: 2, State: 'S', Prio: 120, Comm: []byte("b c")}, ""},
		{"sched_waking: comm=pt-w2 pid=108 prio=120 target_cpu=003\n", Event{Kind: Waking, TID: 108, Prio: 120, Comm: []byte("pt-w2")}, ""},
		{"sched_wakeup: comm=a pid=3 pid=108 prio=120 success=1 target_cpu=003\n", Event{Kind: Wakeup, TID: 108, Prio: 120, Comm: []byte("a pid=3")}, ""},
		{"sched_waking:         comm=x pid=8 prio=9 target_cpu=000\n", Event{Kind: Waking, TID: 8, Prio: 9, Comm: []byte("x")}, ""},
		{"sched_wakeup:         pt:w:108 [120] CPU:003\n", Event{Kind: Wakeup, TID: 108, Prio: 120, Comm: []byte("pt:w")}, ""},
		{"sched_process_exec: filename=/bin/pid=3 old_pid=4 x pid=12 old_pid=11\n", Event{Kind: Exec, TID: 12, OldTID: 11, Prio: NoPrio}, ""},
		{"sched_process_exit: comm=a pid=7 prio=120 group_dead=true\n", Event{Kind: Exit, Group: true, Prio: NoPrio}, ""},
		{"sched_process_exit: comm=a pid=7 prio=120\n", Event{Kind: Exit, Prio: NoPrio}, ""},
		{"task_newtask: pid=15 comm=a clone_flags=3d0f00 oom_score_adj=0\n", Event{Kind: NewTask, TID: 15, Thread: true, Prio: NoPrio}, ""},
		{"task_newtask: pid=15 comm=a clone_flags=0x1200011 oom_score_adj=0\n", Event{Kind: NewTask, TID: 15, Prio: NoPrio}, ""},
	} {
		var got Event
		ok := Parse([]byte(c.body), &got)
		prev := string(got.PrevComm())
		got.prev = nil
		if !ok || !reflect.DeepEqual(got, c.want) || prev != c.prev {
			t.Errorf("Parse(%q)\n got %+v\nwant %+v", c.body, got, c.want)
		}
	}
	for _, body := range []string{
		"", "sched_switch", "sched_switch:", "sched_switch: x ==> y", "sched_switch: prev_comm=a ==> next_comm=b next_pid=1",
		"sched_switch: prev_state= ==> next_comm=b next_pid=1", "sched_waking: comm=a", "sched_waking: comm=a pid=99999999",
		"sched_process_exec: filename=/x pid=3", "task_newtask: pid=x clone_flags=0", "other: comm=a pid=1",
	} {
		if Parse([]byte(body), new(Event)) {
			t.Errorf("Parse(%q) took it", body)
		}
	}
}

// usualAgainstAny fails if the short way reads a switch otherwise than the long
// one, and reports whether it reads it.
func usualAgainstAny(t *testing.T, text []byte) bool {
	t.Helper()
	usual, any := Event{Kind: Switch}, Event{Kind: Switch}
	if !usual.usualSwitch(text) {
		if !reflect.DeepEqual(usual, any) {
			t.Errorf("%q: not taken, but %+v", text, usual)
		}
		return false
	}
	if !any.anySwitch(text) || !reflect.DeepEqual(usual, any) {
		t.Errorf("%q is %+v, want %+v", text, usual, any)
	}
	return true
}

// TestUsualSwitch puts pieces of the grammar at every place of a usual switch.
func TestUsualSwitch(t *testing.T) {
	const text = "prev_comm=a prev_pid=513 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=518 next_prio=12"
	pieces := []string{"", " ", "=", "0", "9999999", "4194305", "-", " ==> ", " ==>", "==> ", " next_pid=", " next_prio=", "next_comm=", " prev_state=", " prev_state=S", "\n"}
	taken := 0
	for i := range len(text) + 1 {
		for _, piece := range pieces {
			for _, drop := range []int{0, 1, len(piece)} {
				if usualAgainstAny(t, []byte(text[:i]+piece+text[min(i+drop, len(text)):])) {
					taken++
				}
			}
		}
	}
	if taken < len(text) {
		t.Errorf("the short way took %d only", taken)
	}
}

// TestPriorities reads priorities in all forms.
func TestPriorities(t *testing.T) {
	for _, c := range []struct {
		body       string
		prev, next int32
	}{
		{"sched_switch: prev_comm=a prev_pid=513 prev_prio=98 prev_state=R+ ==> next_comm=b next_pid=518 next_prio=-1\n", 98, -1},
		{"sched_switch: prev_comm=a prev_prio=5 prev_pid=513 prev_prio=-1 prev_state=R+ ==> next_comm=b next_pid=518 next_prio=0\n", -1, 0},
		{"sched_switch: prev_comm=a prev_pid=513 prev_state=R+ ==> next_comm=b next_pid=518\n", NoPrio, NoPrio},
		{"sched_switch: a:14 [-1] S ==> b c:2 [49]\n", -1, 49},
		{"sched_waking: comm=a prio=3 pid=8 prio=-1 target_cpu=000\n", NoPrio, -1},
		{"sched_waking: comm=a prio=3 pid=8 target_cpu=000\n", NoPrio, NoPrio},
		{"sched_waking: comm=a pid=8 prio=99999999 target_cpu=000\n", NoPrio, NoPrio},
	} {
		var e Event
		if !Parse([]byte(c.body), &e) || e.Prio != c.next || e.PrevPrio() != c.prev {
			t.Errorf("%q: %d and %d", c.body, e.PrevPrio(), e.Prio)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("sched_switch: prev_comm=a prev_pid=513 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=518 next_prio=120\n"))
	f.Add([]byte("sched_wakeup:         pt:w:108 [120] CPU:003\n"))
	f.Add([]byte("task_newtask: pid=15 comm=a clone_flags=3d0f00 oom_score_adj=0\n"))
	f.Add([]byte("sched_process_exec: filename=/bin/x pid=12 old_pid=11\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var e Event
		usualAgainstAny(t, body)
		if prev := e.PrevPrio(); prev != NoPrio && (prev > maxTID || prev < -maxTID) {
			t.Errorf("%q: %d", body, prev)
		}
		if Parse(body, &e) && (e.Kind == None || e.TID < 0 || e.TID > maxTID) {
			t.Errorf("%q: %+v", body, e)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	body := []byte("sched_switch: prev_comm=contend prev_pid=513 prev_prio=120 prev_state=R+ ==> next_comm=gomutex next_pid=518 next_prio=120\n")
	var e Event
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		Parse(body, &e)
	}
}
