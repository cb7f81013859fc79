package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// runs runs a command and returns what it prints.
func runs(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(args, strings.NewReader(""), &out, &errs); got != want {
		t.Fatalf("ustack %s: exit code %d, want %d\n%.2000s", strings.Join(args, " "), got, want, &errs)
	}
	return out.String(), errs.String()
}

// renaming is what became of the strings of a text: one to one.
type renaming struct{ to, from map[string]string }

func (r *renaming) pair(a, b string) error {
	if old, ok := r.to[a]; ok && old != b {
		return fmt.Errorf("%q is %q and %q", a, old, b)
	}
	if old, ok := r.from[b]; ok && old != a {
		return fmt.Errorf("%q stands for %q and %q", b, old, a)
	}
	r.to[a], r.from[b] = b, a
	return nil
}

// aside are the keys of JSON whose text differs in other ways than by names:
// free text, and what holds names in sentences.
var aside = []string{"args", "text", "notes", "verdict", "verdicts", "evidence", "what", "announcements", "path_hex", "comm_hex", "args_hex"}

// same holds two JSON values against each other.
func (r *renaming) same(where string, a, b any) error {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %v and %v", where, a, b)
		}
		for _, k := range keysOf(x, y) {
			if slices.Contains(aside, k) {
				continue
			}
			if err := r.same(where+"."+k, x[k], y[k]); err != nil {
				return err
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return fmt.Errorf("%s: %v and %v", where, a, b)
		}
		for i := range x {
			if err := r.same(fmt.Sprintf("%s[%d]", where, i), x[i], y[i]); err != nil {
				return err
			}
		}
	case string:
		if strings.ContainsRune(x, '\uFFFD') {
			return nil // bytes that JSON cannot show
		}
		y, ok := b.(string)
		if !ok {
			return fmt.Errorf("%s: %v and %v", where, a, b)
		}
		if err := r.pair(x, y); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	default:
		if a != b {
			return fmt.Errorf("%s: %v and %v", where, a, b)
		}
	}
	return nil
}

func keysOf(maps ...map[string]any) []string {
	var keys []string
	for _, m := range maps {
		for k := range m {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// TestRedactSame: what is counted, compared and paired comes out the same, with
// other names.
func TestRedactSame(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	captures := []string{"hash/edge", "hash/kstack", "inode/pipe_default", "stock/lost"}
	if !capturetest.Brief() {
		captures = append(captures, "hash/pipe_default", "hash/edge2", "hash/tgid", "hash/lost", "hash/noirq", "stock/mono")
	}
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			trace := filepath.Join("..", "..", "testdata", "captures", filepath.FromSlash(name), "trace.txt.zst")
			report, out := filepath.Join(dir, "report.zst"), filepath.Join(dir, "redacted.zst")
			// A report says what its own form can say: that is what is compared.
			asReport(t, trace, report)
			runs(t, exitOK, "redact", "-q", "-o", out, report)
			if leaks, _ := runs(t, exitOK, "check-redaction", out); leaks != "" {
				t.Errorf("leaks:\n%.2000s", leaks)
			}
			names := &renaming{map[string]string{}, map[string]string{}}
			// By lock: a token does not say which addresses are 24 bytes apart, as words of
			// one condition variable are.
			for _, args := range [][]string{{"replay", "-q", "--format=json"}, {"futex", "-q", "--json", "--top=0", "--by=lock"}} {
				before, _ := runs(t, exitOK, append(args, report)...)
				after, _ := runs(t, exitOK, append(args, out)...)
				a, b := json.NewDecoder(strings.NewReader(before)), json.NewDecoder(strings.NewReader(after))
				for n := 0; a.More() || b.More(); n++ {
					var x, y any
					if err := a.Decode(&x); err != nil {
						t.Fatal(err)
					}
					if err := b.Decode(&y); err != nil {
						t.Fatal(err)
					}
					if err := names.same(fmt.Sprintf("%s %d", args[0], n), x, y); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// secret is what is planted.
const secret = "alice"

// planted are places of a report, and what is written there.
func planted() []string {
	head := func(comm, body string) string {
		return fmt.Sprintf("%16s-77      [001] .....     5.000001: %s\n", comm, body)
	}
	event := func(bodies ...string) []string {
		var out []string
		for _, b := range bodies {
			out = append(out, head("<...>", b))
		}
		return out
	}
	frame := func(lines ...string) []string {
		var out []string
		for _, l := range lines {
			out = append(out, head("<...>", "<user stack trace>")+l+"\n")
		}
		return out
	}
	all := slices.Concat(
		event(
			"sched_switch: prev_comm=alice prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
			"sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=alice next_pid=1 next_prio=120",
			"sched_switch: prev_comm=a b alice prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
			"sched_switch: prev_comm=x prev_pid=7 alice prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=y next_pid=0 next_prio=120",
			"sched_switch: prev_comm=x ==> alice prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=y next_pid=0 next_prio=120",
			"sched_switch: prev_comm=swapper/0alice prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=y next_pid=1 next_prio=120",
			"sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=alice ==> next_comm=y next_pid=0 next_prio=120",
			"sched_switch: prev_comm=/usr/bin/alice prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=y next_pid=0 next_prio=120",
			"sched_switch:         alice:1 [120] S ==> swapper/0:0 [120]",
			"sched_waking: comm=alice pid=1 prio=120 target_cpu=001",
			"sched_wakeup: comm=alice smith pid=1 prio=120 target_cpu=001",
			"sched_wakeup: comm= alice pid=1 prio=120 target_cpu=alice",
			"sched_process_exec: filename=/home/alice/bin/x pid=5 old_pid=5",
			"sched_process_exec: filename=alice pid=5 old_pid=5",
			"sched_process_exec: filename=/usr/bin/../../home/alice/x pid=5 old_pid=5",
			"sched_process_exec: filename=/usr/bin/x alice pid=5 old_pid=5",
			"sched_process_exec: filename=/usr/bin//alice pid=5 old_pid=5",
			"sched_process_exec: filename=/usr/local/bin/alice pid=5 old_pid=5",
			"sched_process_exec: filename=/usrlib/alice pid=5 old_pid=5",
			"sched_process_exec: filename=/usr/lib/\xffalice pid=5 old_pid=5",
			"sched_process_exit: comm=alice pid=5 prio=120 group_dead=true",
			"sched_process_exit: comm=x pid=5 prio=120 group_dead=alice",
			"sched_process_fork: comm=x pid=5 child_comm=alice child_pid=6",
			"task_newtask: pid=2 comm=alice clone_flags=3d0f00 oom_score_adj=0",
			"task_rename: pid=2 oldcomm=x newcomm=alice oom_score_adj=0",
			"signal_generate: sig=9 errno=0 code=0 comm=alice pid=5 grp=1 res=0",
			"signal_deliver: sig=9 alice errno=0 code=0 sa_handler=0 sa_flags=0",
			"irq_handler_entry: irq=9 name=alice",
			"workqueue_execute_start: work struct 00000000abcd0000: function alice_work",
			"oom_score_adj_update: pid=1 comm=alice oom_score_adj=0",
			"mark_victim: pid=5 comm=alice total-vm:5kB",
			"page_fault_user: address=0x7f12deadbeef ip=0x12 error_code=0x6 alice",
		),
		event(
			`sys_openat(dfd: 3, filename: "/home/alice/secret", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: 0x61234567 "/home/alice/secret", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: 0x61234567 "alice, flags: 5", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: "a"alice"b", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: "x) -> alice", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: "/usr/lib/ok alice", flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, alice: 5, flags: 0, mode: 0)`,
			`sys_openat(alice)`,
			`sys_openat(dfd: alice, filename: 0, flags: 0, mode: 0)`,
			`sys_openat(dfd: 3, filename: 0, flags: O_RDONLY|alice, mode: 0)`,
			`sys_alice(dfd: 3)`,
			`sys_alice -> 0x0`,
			`sys_openat -> alice`,
			`sys_openat -> 0x0 alice`,
			`sys_openat(dfd: 3) alice`,
			`sys_write(fd: 1, buf: 0x61234567 "hello alice", count: 5)`,
			`sys_write(fd: 1, buf: 0x61234567 (68:65:79 alice), count: 5)`,
			`sys_execve(filename: "/bin/alice sh", argv: 0, envp: 0)`,
			`sys_enter_openat: dfd: 3, filename: "alice", flags: 0`,
			`sys_enter_openat: dfd=3 filename=alice flags=0`,
			`sys_exit_openat: 0x3 alice`,
			`sys_enter_alice: a: 5`,
			`sys_futex(uaddr: 0x61234567, op: FUTEX_alice, val: 0, utime: 0, uaddr2: 0, val3: 0)`,
			`sys_futex(uaddr: alice, op: 0, val: 0, utime: 0, uaddr2: 0, val3: 0)`,
			"sys_enter: NR 202 (alice, 0, 0)",
		),
		event(
			"tracing_mark_write: alice", "tracing_mark_write: B|77|alice", "tracing_mark_write: E|5 alice\nalice again",
			"tracing_mark_write: 5\n => alice", "tracing_mark_write: x\n# ustack: command=alice", "tracing_mark_write: x\n# ustack: alice",
			"print: alice", "bprint: main: alice", "bputs: alice", "raw_data: alice", "raw_data: # 1 buf: 61 alice",
			"main: alice said", "alice: (0x61234567)", "alice_probe: arg1=5", "user_probe: arg=\"alice\"", "alice", "console: [1.0] alice",
			"file_map: alice", "file_map: hash=0x5 path=alice", "file_map: hash=0x5 path=(alice)", "inode_cache: inode=5 dev=[8:1] path=/x/alice",
			"file_map: hash=0x5 path=/home/alice/lib.so build_id={0x1,0x2,0x3,0x4,0x5}",
			"file_map: hash=0x5 path=/usr/lib/a\nalice build_id={0x1,0x2,0x3,0x4,0x5}",
			"file_map: hash=0x5 path=v8 alice build_id={0x1,0x2,0x3,0x4,0x5}",
			"file_map: hash=0x5 path=/memfd:alice (deleted) build_id={0x1,0x2,0x3,0x4,0x5}",
			"file_map: hash=0x5 path=/usr/lib/x.so alice build_id={0x1,0x2,0x3,0x4,0x5}",
			"file_map: hash=0x5 path=/home/alice/libc.so.6 (deleted) build_id={0x1,0x2,0x3,0x4,0x5}",
			"<stack trace>\n => alice_ioctl", "<stack trace>\nalice", "<stack trace>\n => do_x\nalice", "cookie=alice", "cookie=5 alice",
			"user_unwind_cookie: cookie=5 alice", "<user stack unwind> alice", "<user stack unwind>\nalice", "<user stack unwind>\ncookie=alice",
			"<user stack unwind>\ncookie=5\nalice",
		),
		frame(
			" =>  <0000000000001234> : [anon:alice] (unresolved: anonymous)", " =>  <0000000000001234> : [anon_shmem:alice] (unresolved: anonymous)",
			" =>  <0000000000001234> : /dev/alice (deleted) (unresolved: not-code)", " =>  <0000000000001234> : alice (unresolved: anonymous)",
			" =>  <0000000000001234> : [alice] (unresolved: anonymous)", " =>  <0000000000001234> (unresolved: alice)",
			" => /home/alice/x[+0x12]", " => /home/alice/x[+0x12] <0000000000001234>", " => alice", " =>  <alice>", " =>  <0000000000001234> alice",
			" =>  <0000000000001234> : path=/home/alice/x", " =>  <0000000000001234> : path=/usr/bin/alice smith build_id={0x1,0x2,0x3,0x4,0x5}",
			" =>  <0000000000001234>\nalice", " =>  <0000000000001234> : 5 : 8:1 alice", " =>  <0000000000001234> : 0x5alice", "\t=> alice",
		),
		[]string{
			head("alice", "sys_futex -> 0x0"), head("a alice", "cookie=5"), head("~alice", "<user stack trace>"), head("al\nalice", "sys_futex -> 0x0"),
			head("alice", "<stack trace>"), head("alice", "tracing_mark_write: 5"),
			"           <...>-77      [001] alice     5.000001: sys_futex -> 0x0\n",
			"CPU:0 [LOST 5 EVENTS] alice\n", "##### CPU 1 buffer started #### alice\n", "[LINE TOO BIG] alice\n",
			"# ustack: alice\n", "# ustack: alice=5\n", "# ustack: trigger=event=alice:alice\n", "# ustack: end events=5 alice=5\n", "# tracer: alice\n", "alice\n",
		},
	)
	return all
}

// heads are lines of a report's head with a secret each.
var heads = []string{
	"# ustack: command=/home/alice/run --user alice", "# ustack: kernel=6.18.44-alice", "# ustack: boot_id=alice", "# ustack: ustack=v1.2.3-alice",
	"# ustack: events=syscalls:sys_enter_futex/comm == alice/", "# ustack: begun=alice", "# ustack: arch=alice", "# ustack: clock=alice",
	"# ustack: clock_offset_ns=alice", "# ustack: stacks=alice", "# ustack: mappings=alice", "# ustack: who=alice", "# ustack: version=alice", "alice",
	"# alice", "# tracer: alice", "# entries-in-buffer/entries-written: 5/6 #P:alice", "#           TASK-PID     alice",
}

// TestRedactLeaks plants more than a hundred secrets, each in a place of its own:
// the check finds every one, and the redactor takes every one out.
func TestRedactLeaks(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	good := "           <...>-77      [001] .....     4.000001: sys_futex -> 0x0\n"
	end := "           <...>-77      [001] .....     6.000001: sys_futex -> 0x1\n# ustack: end events=2 stacks=0\n"
	var all []string
	for _, p := range planted() {
		all = append(all, "# ustack: version=1\n"+good+p+end)
	}
	for _, h := range heads {
		all = append(all, "# ustack: version=1\n"+h+"\n"+good+end)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	found := 0
	for _, text := range all {
		if !strings.Contains(text, secret) {
			t.Fatalf("no secret in %q", text)
		}
		if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		leaks, _ := runs(t, exitFailure, "check-redaction", in)
		line := 1 + strings.Count(text[:strings.Index(text, secret)], "\n")
		if !strings.Contains(leaks, secret) && !strings.Contains(leaks, "path and build ID") {
			t.Errorf("not found on line %d:\n%s%s", line, text, leaks)
			continue
		}
		found++
		runs(t, exitOK, "redact", "-q", "-o", out, in)
		plain := string(capturetest.Read(t, out))
		if strings.Contains(strings.ToLower(plain), secret) {
			t.Errorf("still there:\n%s%s", text, plain)
		}
		var left, errs bytes.Buffer
		if code := run([]string{"check-redaction", out}, nil, &left, &errs); code != exitOK {
			t.Errorf("leaks:\n%s%s%s", text, plain, &left)
		}
	}
	if found < 100 {
		t.Errorf("%d leaks were found", found)
	}
	t.Logf("%d leaks", found)
}

// TestRedactAddresses: addresses of user space are found, and gone.
func TestRedactAddresses(t *testing.T) {
	const text = "           <...>-77      [001] .....     5.000001: sys_futex(uaddr: 0x5645c1ab1238, op: 0x80, val: 0x7f0000000002, utime: 0x7f12deadbee0, uaddr2: 0x404060, val3: 0xffffffff00000000)\n" +
		"           <...>-77      [001] .....     5.000002: sys_futex(uaddr: 0xc000123458, op: 0x80, val: 0, utime: 0, uaddr2: 0, val3: 0)\n" +
		"           <...>-77      [001] .....     5.000003: sys_mmap -> 0x7f12deadb000\n" +
		"           <...>-77      [001] .....     5.000004: sys_futex -> 0xfffffffffffffff5\n" +
		"           <...>-77      [001] .....     5.000005: <user stack trace>\n =>  <00007f12deadbeef> (unresolved: no-vma)\n"
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, exitFailure, "check-redaction", in)
	runs(t, exitOK, "redact", "-q", "-o", out, in)
	runs(t, exitOK, "check-redaction", out)
	got := string(capturetest.Read(t, out))
	want := regexp.MustCompile(`uaddr: 0x6[0-9a-f]{15}, op: 0x80, val: 0x2, utime: 0x6[0-9a-f]{15}, uaddr2: 0x6[0-9a-f]{15}, val3: 0x0\)
.*uaddr: 0x5[0-9a-f]{15}, op
.*sys_mmap -> 0x6[0-9a-f]{15}
.*sys_futex -> 0xfffffffffffffff5
.*
 =>  <6[0-9a-f]{15}> \(unresolved: no-vma\)`)
	if !want.MatchString(strings.ReplaceAll(got, "op: 0x80, val: 0,", "op\n")) && !regexp.MustCompile(strings.ReplaceAll(want.String(), ", op\n", ", op: .*\n")).MatchString(got) {
		t.Errorf("got:\n%s", got)
	}
}

// asReport makes a report of any trace.
func asReport(t *testing.T, trace, name string) {
	t.Helper()
	f := convertFlags{out: name, traceFlags: traceFlags{dialectName: "auto"}}
	f.Quiet = true
	if err := f.parsed([]string{trace}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.redact(&redactFlags{}, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
}

// TestRecordRedacted: record itself writes nothing that check-redaction finds,
// and the right frames.
func TestRecordRedacted(t *testing.T) {
	capturetest.NeedLong(t)
	_, work := workload(t)
	bin := ustackBinary(t)
	for _, more := range [][]string{nil, {"--ring"}} {
		report := filepath.Join(t.TempDir(), "report.zst")
		args := append([]string{"record", "-q", "--redact", "-o", report, "-e", "syscalls:sys_*_futex", "-e", "sched:*"}, more...)
		if out, err := exec.Command(bin, append(args, "--", work, "herd")...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if leaks, _ := runs(t, exitOK, "check-redaction", report); leaks != "" {
			t.Errorf("leaks:\n%.2000s", leaks)
		}
		text, _ := runs(t, exitOK, "replay", "-q", report)
		if strings.Contains(text, filepath.Base(work)+"-") || strings.Contains(text, work) || !strings.Contains(text, ": path=/~") {
			t.Errorf("redacted:\n%.2000s", text)
		}
	}
}
