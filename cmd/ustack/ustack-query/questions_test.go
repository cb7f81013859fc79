package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// question is a question about a capture: SQL that answers it, and the right answer as CSV
// without the names of columns, by what is known without ustack.
type investigation struct {
	capture string
	ask     string
	sql     string
	want    func(w *witness) string
}

// busiest is the lock that is waited for longest.
const busiest = "(SELECT id FROM locks WHERE is_lock ORDER BY ns DESC LIMIT 1)"

// one returns the answer of one value.
func one(value func(*witness) any) func(*witness) string {
	return func(w *witness) string { return fmt.Sprint(value(w)) }
}

// always is a right answer that follows from what the program is.
func always(text string) func(*witness) string { return func(*witness) string { return text } }

// contenders are questions about threads that fight for a lock: the program logs each wait.
func contenders() []investigation {
	main := func(w *witness) []call { return w.waits(w.contended()) }
	return []investigation{
		{"herd", "Which lock do threads wait for most?", "SELECT address FROM locks WHERE id = " + busiest,
			one(func(w *witness) any { return w.ofKind("hold")[0].addr })},
		{"herd", "What is it?", "SELECT kind, is_lock, shared FROM locks WHERE id = " + busiest, always("mutex,1,0")},
		{"herd", "How often did they wait for it?", "SELECT waits FROM locks WHERE id = " + busiest,
			one(func(w *witness) any { return len(w.ofKind("wait")) })},
		{"herd", "How many of these waits did another thread end?", "SELECT woken FROM locks WHERE id = " + busiest,
			one(func(w *witness) any { return count(main(w), func(c call) bool { return c.ret == 0 }) })},
		{"herd", "How long did they wait in all?", "SELECT ns FROM locks WHERE id = " + busiest,
			one(func(w *witness) any { return total(main(w)) })},
		{"herd", "How often did each thread wait?", "SELECT tid, count(*) FROM waits WHERE lock = " + busiest + " GROUP BY tid ORDER BY tid",
			func(w *witness) string { return byThread(main(w), func(call) int64 { return 1 }) }},
		{"herd", "How long did each thread wait?", "SELECT tid, sum(ns) FROM waits WHERE lock = " + busiest + " AND slept GROUP BY tid ORDER BY tid",
			func(w *witness) string { return byThread(main(w), func(c call) int64 { return c.ns() }) }},
		{"herd", "Which wait was the longest, and where is it in the trace?",
			"SELECT tid, line, end_line, ns FROM waits WHERE lock = " + busiest + " ORDER BY ns DESC LIMIT 1",
			func(w *witness) string { c := longest(main(w)); return cells(c.tid, c.line, c.end, c.ns()) }},
		{"herd", "Who ended it, and in which line?", "SELECT waker_tid, waker_line FROM waits WHERE lock = " + busiest + " ORDER BY ns DESC LIMIT 1",
			func(w *witness) string {
				c := longest(main(w))
				for _, r := range w.ofKind("free") {
					for _, k := range w.calls {
						if k.op == opWake && k.tid == r.tid && k.from >= r.from-1000 && k.from <= r.to && k.from <= c.to && k.to > c.from && k.ret == 1 && c.to-k.from < 200_000 {
							return cells(k.tid, k.line)
						}
					}
				}
				return "no thread"
			}},
		{"herd", "Where does the first wait begin?", "SELECT min(line) FROM waits WHERE lock = " + busiest,
			one(func(w *witness) any { return main(w)[0].line })},
		{"herd", "Where does the last wait end?", "SELECT max(end_line) FROM waits WHERE lock = " + busiest,
			one(func(w *witness) any {
				return slices.MaxFunc(main(w), func(a, b call) int { return cmp.Compare(a.end, b.end) }).end
			})},
		{"herd", "How many waits lasted for 10 ms or more?", "SELECT count(*) FROM waits WHERE lock = " + busiest + " AND ns >= 10000000",
			one(func(w *witness) any { return count(main(w), func(c call) bool { return c.ns() >= 10_000_000 }) })},
		{"herd", "How often did each thread get the lock after a wait?",
			"SELECT tid, count(*) FROM holds WHERE lock = " + busiest + " AND waited GROUP BY tid ORDER BY tid",
			func(w *witness) string { return w.gotByWaiting() }},
		{"herd", "In which line was the lock released for the first time while others waited?",
			"SELECT min(line) FROM holds WHERE lock = " + busiest + " AND waiters > 0",
			one(func(w *witness) any {
				for _, c := range w.calls {
					if c.op == opWake && c.ret == 1 && c.addr == w.contended() {
						return c.line
					}
				}
				return "none"
			})},
		{"herd", "Which process is it?", "SELECT DISTINCT pid FROM locks",
			one(func(w *witness) any {
				return strings.TrimSpace(w.submatches(`workload-\d+ +\( *(\d+)\) .* sys_futex`)[0])
			})},
		{"herd", "How many threads ran out while another waited for their end?", "SELECT count(*) FROM locks WHERE kind = 'join'",
			one(func(w *witness) any { return count(w.waits(""), func(c call) bool { return c.addr != w.contended() }) })},
		{"mutex", "Which pthread mutex do threads wait for?", "SELECT address, kind FROM locks WHERE id = " + busiest,
			func(w *witness) string { return cells(w.ofKind("hold")[0].addr, "mutex") }},
		{"mutex", "How many calls waited for it, and found it free?", "SELECT waits, changed FROM locks WHERE id = " + busiest,
			func(w *witness) string {
				return cells(len(main(w)), count(main(w), func(c call) bool { return c.ret == -11 }))
			}},
		{"mutex", "How long did threads wait for it?", "SELECT ns FROM locks WHERE id = " + busiest, one(func(w *witness) any { return total(main(w)) })},
		{"mutex", "Which thread lost most time by that?", "SELECT tid FROM threads ORDER BY ns DESC LIMIT 1",
			one(func(w *witness) any {
				sum := map[int64]int64{}
				for _, c := range main(w) {
					if c.slept() {
						sum[c.tid] += c.ns()
					}
				}
				return slices.MaxFunc(sortedKeys(sum), func(a, b int64) int { return cmp.Compare(sum[a], sum[b]) })
			})},
		{"mutex", "Which waits were the three longest, by line?", "SELECT line, ns FROM waits WHERE lock = " + busiest + " AND slept ORDER BY ns DESC, line LIMIT 3",
			func(w *witness) string {
				list := slices.DeleteFunc(main(w), func(c call) bool { return !c.slept() })
				slices.SortFunc(list, func(a, b call) int { return cmp.Or(cmp.Compare(b.ns(), a.ns()), a.line-b.line) })
				return cells(list[0].line, list[0].ns()) + "\n" + cells(list[1].line, list[1].ns()) + "\n" + cells(list[2].line, list[2].ns())
			}},
		{"mutex", "How many threads waited for it?", "SELECT count(DISTINCT tid) FROM waits WHERE lock = " + busiest, always("4")},
	}
}

// endings are questions about how waits end.
func endings() []investigation {
	result := func(ret int64) func(*witness) string {
		return one(func(w *witness) any {
			n := 0
			for _, r := range w.ofKind("wait") {
				if r.result == ret {
					n++
				}
			}
			return n
		})
	}
	const sleeper = "(SELECT id FROM locks ORDER BY waits DESC LIMIT 1)"
	return []investigation{
		{"timeout", "How many waits reached their timeout?", "SELECT timed_out FROM locks WHERE id = " + sleeper, result(-110)},
		{"timeout", "How many did not sleep, as the value had changed?", "SELECT changed FROM locks WHERE id = " + sleeper, result(-11)},
		{"timeout", "Does any thread wait for a lock?", "SELECT count(*) FROM locks WHERE is_lock", always("0")},
		{"timeout", "How long was the shortest sleep, and where?", "SELECT ns, line FROM waits WHERE slept AND lock = " + sleeper + " ORDER BY ns, line LIMIT 1",
			func(w *witness) string {
				list := slices.DeleteFunc(w.waits(w.contended()), func(c call) bool { return !c.slept() })
				c := slices.MinFunc(list, func(a, b call) int { return cmp.Or(cmp.Compare(a.ns(), b.ns()), a.line-b.line) })
				return cells(c.ns(), c.line)
			}},
		{"timeout", "How long did it sleep in all?", "SELECT ns FROM locks WHERE id = " + sleeper, one(func(w *witness) any { return total(w.waits(w.contended())) })},
		{"timeout", "Did another thread ever end a wait?", "SELECT count(waker_tid) FROM waits", always("0")},
		{"signal", "How many waits did a signal end?", "SELECT count(*) FROM waits WHERE result = 'interrupted' AND line IN (SELECT max(line) FROM waits GROUP BY tid)", result(-4)},
		{"signal", "Which wait reached its timeout?", "SELECT tid FROM waits WHERE result = 'timed out'",
			one(func(w *witness) any {
				for _, r := range w.ofKind("wait") {
					if r.result == -110 {
						return r.tid
					}
				}
				return "none"
			})},
		{"signal", "Which locks are certain to be none?", "SELECT count(*) FROM locks WHERE kind = 'not-a-lock'", always("1")},
		{"requeue", "How many waits were moved to another futex?", "SELECT sum(requeued) FROM locks",
			one(func(w *witness) any {
				n := int64(0)
				for _, c := range w.calls {
					if c.op == opRequeue {
						n += c.ret - 1 // one is woken
					}
				}
				return n
			})},
		{"requeue", "Where were they moved to?", "SELECT address FROM locks WHERE is_lock", func(w *witness) string {
			for _, line := range w.lines {
				if m := requeued.FindStringSubmatch(line); m != nil {
					return m[1]
				}
			}
			return "nowhere"
		}},
		{"pshared", "How many processes wait for the shared lock?", "SELECT count(DISTINCT pid) FROM waits WHERE result = 'woken'",
			one(func(w *witness) any { return len(distinct(w.submatches(`workload-\d+ +\( *(\d+)\) .* sys_futex`))) })},
		{"pshared", "At which addresses do they have it?", "SELECT address FROM locks WHERE shared AND kind = 'mutex' ORDER BY address",
			func(w *witness) string {
				seen := map[string]bool{}
				for _, r := range w.ofKind("wait") {
					seen[r.addr] = true
				}
				var list []string
				for addr := range seen {
					list = append(list, addr)
				}
				slices.Sort(list)
				return strings.Join(list, "\n")
			}},
		{"pshared", "How often did each process wait?", "SELECT pid, count(*) FROM waits GROUP BY pid ORDER BY pid",
			func(w *witness) string { // each has one thread
				return byThread(w.waits(""), func(call) int64 { return 1 })
			}},
	}
}

// distinct returns the different texts of a list.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// hangs are questions about programs that hang.
func hangs() []investigation {
	open := func(w *witness) []call { return slices.DeleteFunc(w.waits(""), func(c call) bool { return c.end > 0 }) }
	lines := func(w *witness) string {
		var list []string
		for _, c := range open(w) {
			list = append(list, cells(c.line, c.tid, c.addr))
		}
		return strings.Join(list, "\n")
	}
	const hanging = "SELECT line, tid, address FROM waits WHERE result = 'open' ORDER BY line"
	return []investigation{
		{"abba", "Which threads wait and do not come back, where, and for what?", hanging, lines},
		{"abba", "Do any two of them wait for the same lock?", "SELECT count(*) - count(DISTINCT lock) FROM waits WHERE result = 'open'", always("0")},
		{"abba", "Did any wait end?", "SELECT count(*) FROM waits WHERE to_ns IS NOT NULL", one(func(w *witness) any { return len(w.waits("")) - len(open(w)) })},
		{"dead", "Which thread hangs, where, and for what?", hanging, lines},
		{"dead", "Which thread got that lock before, and in which line?",
			"SELECT tid, end_line FROM waits WHERE result = 'woken' AND lock = (SELECT lock FROM waits WHERE result = 'open')",
			func(w *witness) string {
				for _, c := range w.waits(open(w)[0].addr) {
					if c.end > 0 {
						return cells(c.tid, c.end)
					}
				}
				return "none"
			}},
		{"dead", "Did that thread release it later?", "SELECT count(*) FROM holds h WHERE tid = (SELECT tid FROM waits WHERE result = 'woken')",
			one(func(w *witness) any {
				got := w.waits(open(w)[0].addr)[0]
				return count(w.calls, func(c call) bool { return c.op == opWake && c.tid == got.tid })
			})},
	}
}

// anything are questions about captures of other programs: losses, events, files.
func anything() []investigation {
	lost := func(w *witness) (list []string) { return w.submatches(`^CPU:\d+ \[LOST (\d+) EVENTS\]$`) }
	return []investigation{
		{"captures/hash/lost", "How many records were lost?", "SELECT lost_records FROM trace", one(func(w *witness) any {
			n := 0
			for _, text := range lost(w) {
				var k int
				fmt.Sscan(text, &k)
				n += k
			}
			return n
		})},
		{"captures/hash/lost", "In how many places?", "SELECT gaps FROM trace", one(func(w *witness) any { return len(lost(w)) })},
		{"captures/hash/lost", "On which CPUs?", "SELECT DISTINCT cpu FROM loss ORDER BY cpu",
			func(w *witness) string { return strings.Join(distinct(w.submatches(`^CPU:(\d+) \[LOST`)), "\n") }},
		{"captures/hash/pipe_default", "How many switches of threads does the trace have?", "SELECT count(*) FROM events WHERE name = 'sched_switch'",
			one(func(w *witness) any { return len(w.matching(`\] \S+ +[\d.]+: sched_switch: `)) })},
		{"captures/hash/pipe_default", "Which build ID has libc?", "SELECT DISTINCT build_id FROM frames WHERE file = '/lib/x86_64-linux-gnu/libc.so.6'",
			always("93ac61ec5a8eb1396f9fbd350e3169a558528a40")}, // of testdata/truth/buildids.txt
		{"captures/stock/tgid", "Which events of CPU 3 are the first and the last, by line?", "SELECT min(line), max(line) FROM events WHERE cpu = 3",
			func(w *witness) string {
				list := slices.DeleteFunc(w.matching(`\[003\] \S+ +[\d.]+: `), func(n int) bool { return strings.Contains(w.lines[n-1], "<user stack trace>") })
				return cells(list[0], list[len(list)-1])
			}},
		{"captures/stock/tgid", "Was anything lost?", "SELECT count(*) FROM loss", one(func(w *witness) any { return len(lost(w)) })},
		{"git-grep", "For how long did git's threads wait at which futex?", "SELECT address, ns FROM locks WHERE slept ORDER BY ns DESC, address",
			func(w *witness) string {
				sum := map[string]int64{}
				for _, c := range w.waits("") {
					if c.slept() {
						sum[c.addr] += c.ns()
					}
				}
				var addrs []string
				for addr := range sum {
					addrs = append(addrs, addr)
				}
				slices.SortFunc(addrs, func(a, b string) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
				for i, addr := range addrs {
					addrs[i] = cells(addr, sum[addr])
				}
				return strings.Join(addrs, "\n")
			}},
	}
}

// TestQuestions asks what an investigator asks, and compares the answers with what is known
// without ustack: numbers are exact, and lines are those of the text.
func TestQuestions(t *testing.T) {
	databases, witnesses := map[string]*database{}, map[string]*witness{}
	questions := slices.Concat(contenders(), endings(), hangs(), anything())
	for _, q := range questions {
		if databases[q.capture] == nil {
			trace, log := "testdata/"+q.capture+".trace.zst", "testdata/"+q.capture+".truth.zst"
			switch {
			case q.capture == "abba" || q.capture == "dead":
				log = ""
			case strings.Contains(q.capture, "/") || q.capture == "git-grep":
				trace, log = capturePath(q.capture, "trace.txt.zst"), ""
			}
			databases[q.capture], witnesses[q.capture] = loaded(t, "--no-symbols", "SELECT 1", trace), witnessOf(t, trace, log)
		}
		want := q.want(witnesses[q.capture])
		if got, err := ask(t, databases[q.capture], q.sql); err != nil || got != want || want == "" {
			t.Errorf("%s: %s\n%s\nanswers %q, %v, want %q", q.capture, q.ask, q.sql, got, err, want)
		}
	}
	if len(questions) != 50 {
		t.Errorf("%d questions", len(questions))
	}
	for _, name := range []string{"herd", "timeout", "pshared"} { // they make all calls themselves
		witnesses[name].agrees(t)
	}
}
