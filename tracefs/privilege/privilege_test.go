package privilege_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs/privilege"
	"ustack/tracefs/privilege/privilegetest"
)

const inside = "USTACK_TEST_PRIVILEGE"

func TestMain(m *testing.M) {
	switch os.Getenv(inside) {
	case "":
		os.Exit(m.Run())
	case "keep":
		report(privilege.Start(true))
	default:
		report(privilege.Start(false))
	}
}

// report prints what is in effect, and what can be had.
func report(err error) {
	fmt.Println("start", err)
	fmt.Println("threads", threads("CapEff"), threads("CapPrm"))
	fmt.Println("read", read("/etc/shadow"))
	raised := privilege.Raise(privilege.Tracing)
	fmt.Println("raised", read("/etc/shadow"), own("CapEff"))
	inner := privilege.Raise(privilege.Processes)
	fmt.Println("inner", own("CapEff"))
	inner.Lower()
	fmt.Println("after inner", own("CapEff"))
	fmt.Println("others", others())
	raised.Lower()
	fmt.Println("lowered", read("/etc/shadow"), own("CapEff"))
	fmt.Println("storm", storm())
	fmt.Println("threads", threads("CapEff"), threads("CapPrm"))
}

// read reports whether a file can be opened.
func read(name string) bool {
	f, err := os.Open(name)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

func status(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(text), key+":\t")
	value, _, _ := strings.Cut(rest, "\n")
	v, _ := strconv.ParseUint(value, 16, 64)
	return fmt.Sprintf("%x", v)
}

func own(key string) string {
	return status(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()), key)
}

// threads are the sets of all threads that differ.
func threads(key string) []string {
	entries, _ := os.ReadDir("/proc/self/task")
	var list []string
	for _, e := range entries {
		if v := status("/proc/self/task/"+e.Name()+"/status", key); !strings.Contains(strings.Join(list, " "), v) {
			list = append(list, v)
		}
	}
	return list
}

// others reports whether a file can be opened by other threads meanwhile, new
// ones among them.
func others() bool {
	const many = 20
	can := make(chan bool, many)
	var all sync.WaitGroup
	all.Add(many)
	for range many {
		go func() {
			all.Done()
			all.Wait() // all are there at once
			can <- read("/etc/shadow")
		}()
	}
	any := false
	for range many {
		any = <-can || any
	}
	return any
}

// storm raises and opens in many goroutines at once, and returns how often a file
// could be opened that must not be, or could not that must.
func storm() (wrong int) {
	const many, times = 16, 200
	counts := make(chan int)
	for i := range many {
		go func() {
			n := 0
			for range times {
				can := false
				if i%2 == 0 {
					func() {
						defer privilege.Raise(privilege.Tracing).Lower()
						can = read("/etc/shadow")
					}()
				} else {
					can = read("/etc/shadow")
				}
				if privilege.Held() != 0 && can != (i%2 == 0) {
					n++
				}
			}
			counts <- n
		}()
	}
	for range many {
		wrong += <-counts
	}
	return wrong
}

const all = privilege.Tracing | privilege.Perf | privilege.Processes

// hasC reports whether this was built with the race detector.
func hasC() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestFileCapabilities: what the program's file gives is in effect where it is
// raised, and in no other thread; what is not needed is gone.
func TestFileCapabilities(t *testing.T) {
	if hasC() {
		t.Skip("the race detector is C code, which cannot take capabilities from all threads")
	}
	const dac = privilege.Set(1 << unix.CAP_DAC_OVERRIDE)
	given := dac | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_PERFMON | 1<<unix.CAP_CHOWN // the last is never needed
	kept := given & all
	for _, effective := range []bool{false, true} {
		for _, how := range []string{"keep", "drop"} {
			t.Run(fmt.Sprint(how, " effective=", effective), func(t *testing.T) {
				bin := privilegetest.Program(t, "test")
				privilegetest.Give(t, bin, given, effective)
				cmd := exec.Command(bin)
				cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), inside+"="+how), "/", privilegetest.Attributes()
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				permitted := fmt.Sprintf("threads [0] [%x]\n", kept)
				want := "start <nil>\n" + permitted + "read false\n" + fmt.Sprintf("raised true %x\ninner %x\nafter inner %[1]x\n", dac, given&privilege.Processes) +
					"others false\nlowered false 0\nstorm 0\n" + permitted
				if how == "drop" {
					const none = "threads [0] [0]\n"
					want = "start <nil>\n" + none + "read false\nraised false 0\ninner 0\nafter inner 0\nothers false\nlowered false 0\nstorm 0\n" + none
				}
				if string(out) != want {
					t.Errorf("%s\nwant\n%s", out, want)
				}
			})
		}
	}
}

// TestSetUserID: a set-user-ID or set-group-ID program of root is not run.
func TestSetUserID(t *testing.T) {
	for _, bit := range []os.FileMode{os.ModeSetuid, os.ModeSetgid} {
		bin := privilegetest.Program(t, "test")
		if err := errors.Join(os.Chown(bin, 0, 0), os.Chmod(bin, 0o755|bit)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bin)
		cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), inside+"=keep"), "/", privilegetest.Attributes()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "start "+privilege.ErrSetID.Error()) {
			t.Errorf("%v: %v\n%s", bit, err, out)
		}
	}
}

// TestNothingToDo: without such a file nothing changes, and nothing is raised.
func TestNothingToDo(t *testing.T) {
	before := own("CapEff")
	if err := privilege.Start(false); err != nil || own("CapEff") != before {
		t.Errorf("%v, %s, before %s", err, own("CapEff"), before)
	}
	defer privilege.Raise(all).Lower()
	if got := own("CapEff"); got != before {
		t.Errorf("%s, before %s", got, before)
	}
}
