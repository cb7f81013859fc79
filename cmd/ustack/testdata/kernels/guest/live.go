package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trial is a trace whose stacks are compared with the truth.
type trial struct {
	name string
	args []string
	// cpu switches a processor off and on meanwhile.
	cpu bool
	// least is how many percent of the frames have a file at least.
	least int
}

var trials = []trial{
	{"side band, binary", []string{"--mappings=perf", "--source=binary"}, false, 97},
	{"side band, text", []string{"--mappings=perf", "--source=text"}, false, 97},
	{"side band, loss", []string{"--mappings=perf", "-b=8"}, false, 0},
	{"side band, a CPU that goes and comes", []string{"--mappings=perf"}, true, 0},
	{"queries", []string{"--mappings=query"}, false, 0},
}

// noStacks is what commands say of a kernel that takes no stacks.
const noStacks = "takes no user stacks"

// ustack runs it with a limit, and returns what it wrote.
func ustack(args ...string) (out, errs string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/disk/ustack", args...)
	cmd.WaitDelay = 5 * time.Second
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// tryLive compares what live says with the truth, if this kernel takes stacks;
// else live has to say that it takes none.
func tryLive() {
	verdict, _, err := ustack("doctor")
	head, _, _ := strings.Cut(verdict, "\nLinux")
	say("doctor: %s", strings.Join(strings.Fields(head), " "))
	if err != nil {
		_, errs, err := ustack("live", "-o", "/tmp/none", "--", "/disk/guest", "storm", "1")
		if !strings.Contains(verdict, "user stacks") || err == nil || !strings.Contains(errs, noStacks) {
			say("FAIL: doctor: %v, live: %v\n%s", head, err, tail(errs))
			return
		}
		say("live: %s", tail(errs))
		tryWithout()
		return
	}
	for _, t := range trials {
		t.run()
	}
	tryReplay()
	try32()
}

// run runs a trial.
func (t *trial) run() {
	const out = "/tmp/trial.json"
	args := append([]string{"live", "--format=json", "-o", out}, t.args...)
	if t.cpu {
		stop := make(chan struct{})
		defer close(stop)
		go toggle(stop)
	}
	_, errs, err := ustack(append(args, "--", "/disk/guest", "storm", rounds())...)
	if err != nil {
		say("FAIL: live by %s: %v\n%s", t.name, err, tail(errs))
		return
	}
	v, err := judge(out)
	word := ""
	if err != nil || v.wrong > 0 || v.stacks == 0 || v.share() < t.least {
		word = "FAIL: "
	}
	say("%slive by %s: %v, %d %% named", word, t.name, v, v.share())
	if v != nil && v.first != "" {
		say("%s", v.first)
	}
	if word != "" || v.unresolved["lost"] > 0 {
		say("%s", tail(errs))
	}
	if t.cpu {
		for line := range strings.Lines(errs) {
			if strings.Contains(line, "CPU") && strings.Contains(line, "online") {
				say("%s", line)
			}
		}
	}
}

// rounds is how many programs start in a trial: what the kernel was booted with
// (rounds=N), or some.
func rounds() string {
	line, _ := os.ReadFile("/proc/cmdline")
	for word := range strings.FieldsSeq(string(line)) {
		if n, ok := strings.CutPrefix(word, "rounds="); ok {
			return n
		}
	}
	return "12"
}

// toggle switches a processor off and on until it is to stop.
func toggle(stop chan struct{}) {
	const file = "/sys/devices/system/cpu/cpu1/online"
	for {
		for _, state := range []string{"0", "1"} {
			select {
			case <-stop:
				_ = os.WriteFile(file, []byte("1"), 0o644)
				return
			case <-time.After(time.Second):
			}
			_ = os.WriteFile(file, []byte(state), 0o644) // where there is but one, nothing happens
		}
	}
}

// tryWithout runs what works without stacks.
func tryWithout() {
	out, errs, err := ustack("futex", "--live", "--", "/disk/guest", "work")
	if err != nil || !strings.Contains(errs, "no stacks") || out == "" {
		say("FAIL: futex --live without stacks: %v\n%s", err, tail(errs))
		return
	}
	first, _, _ := strings.Cut(out, "\n")
	say("futex --live without stacks: %s", first)
	if exec.Command(guest32).Run() != nil {
		return
	}
	if _, errs, err = ustack("futex", "--live", "--", guest32); !saysWhy32(errs, err) {
		say("FAIL: futex --live of a program of 32 bits: %v\n%s", err, tail(errs))
	}
}

// tryReplay compares the output of live with that of replay from what it saved.
func tryReplay() {
	if _, errs, err := ustack("live", "--save=/tmp/kept", "-o", "/tmp/kept.txt", "--", "/disk/guest", "storm", "3"); err != nil {
		say("FAIL: live --save: %v\n%s", err, tail(errs))
		return
	}
	trace, err := filepath.Glob("/tmp/kept/trace.*")
	if err != nil || len(trace) != 1 {
		say("FAIL: saved traces: %q", trace)
		return
	}
	out, errs, err := ustack("replay", "--maps", "/tmp/kept/spaces.txt", trace[0])
	want, rerr := os.ReadFile("/tmp/kept.txt")
	if err != nil || rerr != nil || out != string(want) {
		say("FAIL: replay of what was saved: %v, %v, %d bytes of %d\n%s", err, rerr, len(out), len(want), tail(errs))
		return
	}
	say("replay of what was saved: the same %d bytes", len(out))
}

// guest32 is a program of 32 bits.
const guest32 = "/disk/guest32"

// saysWhy32 reports whether ustack failed, as it saw nothing, and said why.
func saysWhy32(errs string, err error) bool {
	return err != nil && strings.Contains(errs, "nothing seen") && strings.Contains(errs, "programs of 32 bits ran")
}

// try32 traces a program of 32 bits: its system calls are no events of syscalls:*,
// and what is said of its stacks has to be true.
func try32() {
	if err := exec.Command(guest32).Run(); err != nil {
		say("this kernel runs no programs of 32 bits: %v", err)
		return
	}
	_, errs, err := ustack("live", "-o", "/tmp/32.txt", "--", guest32)
	if !saysWhy32(errs, err) {
		say("FAIL: live of a program of 32 bits: %v\n%s", err, tail(errs))
	}
	for _, way := range []string{"perf", "query"} {
		if err := stacks32(way); err != nil {
			say("FAIL: stacks of a program of 32 bits, %s: %v", way, err)
		}
	}
}

// stacks32 compares the frames of such a program with its code. Without perf its calls are
// not seen, so that it has no files.
func stacks32(way string) error {
	const out = "/tmp/32.json"
	_, errs, err := ustack("live", "--format=json", "--mappings="+way, "-e", "raw_syscalls:sys_enter", "-o", out, "--", guest32)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(errs))
	}
	at, err := layout(guest32)
	if err != nil {
		return err
	}
	calls, right, wrong, without := 0, 0, "", 0
	err = events(out, func(e *event) {
		if e.Comm != filepath.Base(guest32) || len(e.Stack) == 0 {
			return
		}
		calls++
		for i := range e.Stack {
			f := &e.Stack[i]
			var offset uint64
			_, _ = fmt.Sscanf(f.Offset, "0x%x", &offset)
			switch {
			case f.Path == "":
				without++
			case f.Path == guest32 && at(offset) != 0:
				right++
			default:
				wrong = fmt.Sprintf("%+v", *f)
			}
		}
	})
	if err != nil {
		return err
	}
	if wrong != "" || calls == 0 || (right > 0) != (way == "perf") {
		return fmt.Errorf("%d calls, %d frames right, %d without a file, wrong: %q", calls, right, without, wrong)
	}
	say("program of 32 bits, %s: %d calls, %d frames right, 0 WRONG, %d without a file", way, calls, right, without)
	return nil
}

// tryClean kills live, and has clean take away what it leaves.
func tryClean() {
	cmd := exec.Command("/disk/ustack", "futex", "--live", "--duration=60s")
	if err := cmd.Start(); err != nil {
		say("FAIL: %v", err)
		return
	}
	instance := fmt.Sprintf("/sys/kernel/tracing/instances/ustack-%d", cmd.Process.Pid)
	for range 300 {
		if _, err := os.Stat(instance); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	_, before := os.Stat(instance)
	_, errs, err := ustack("clean")
	_, after := os.Stat(instance)
	if before != nil || err != nil || after == nil {
		say("FAIL: clean: %v, there before: %v, after: %v\n%s", err, before == nil, after == nil, tail(errs))
		return
	}
	say("clean: took away what a killed ustack had left")
}
