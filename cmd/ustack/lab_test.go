//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// labRun is a command line of ustack in the guest. $W is the directory of the
// workloads. Its JSON is held against the truth.
type labRun struct {
	name string
	args string // "" for the output of the run before it
	// lossy: records are lost, and not all frames can have a name.
	lossy bool
	// asks: it is the output of a run that asks processes what they have mapped. anywhere:
	// its events have stacks of any instruction.
	asks, anywhere bool
	// before is shell code that is run first, after is run last.
	before, after string
	copies        map[string][]string // the programs that it puts to paths of their own
}

// query reports whether a run asks processes what they have mapped.
func (r *labRun) query() bool { return r.asks || strings.Contains(r.args, "--mappings=query") }

// script is the shell code of a run. What it writes begins with the run's name.
func (r *labRun) script() string {
	args := labCount.ReplaceAllStringFunc(r.args, func(text string) string {
		m := labCount.FindStringSubmatch(text)
		n, _ := strconv.Atoi(m[2]) // digits
		return m[1] + strconv.Itoa(n**labScale)
	})
	line := fmt.Sprintf("timeout %d $W/ustack live --format=json -o /mnt/%s.json %s 2>/mnt/%[2]s.err || echo %[2]s: failed with $? >>/mnt/failed\n", 150**labScale, r.name, args)
	return r.before + "\n" + line + r.after + "\n"
}

// labRuns are what is tried on each kernel with deferred stacks.
var labRuns = []labRun{
	{name: "tagstorm", args: "-- $W/tagstorm $W 30 4"},
	{name: "tagstorm-text", args: "--source=text -- $W/tagstorm $W 20 4"},
	{name: "tagstorm-lossy", args: "-b 8 -- $W/tagstorm $W 30 4", lossy: true},
	{name: "tagstorm-query", args: "--mappings=query -- $W/tagstorm $W 12 3", lossy: true},
	// Rings of perf, with its own deferred call chains.
	{name: "tagstorm-perf", args: "--source=perf -b 16384 -- $W/tagstorm $W 12 4",
		after: "grep -q 'deferred stacks of perf' /mnt/tagstorm-perf.err || echo 'tagstorm-perf: no deferred stacks' >>/mnt/failed"},
	{name: "execstorm-perf", args: "--source=perf -b 16384 -- $W/execstorm $W 6 4"},
	{name: "execstorm", args: "-- $W/execstorm $W 12 4"},
	{name: "execstorm-text", args: "--source=text -- $W/execstorm $W 8 4"},
	{name: "execstorm-query", args: "--mappings=query -- $W/execstorm $W 6 4", lossy: true},
	{name: "exe-twice", args: `-- sh -c "$W/exe1 3; $W/exe1 3; $W/exe1 3"`},
	{name: "jit", args: "-- $W/jit 4"},
	{name: "jit-query", args: "--mappings=query -- $W/jit 3", lossy: true},
	{name: "deep", args: "-- $W/deep 5 20 100"},
	// Six programs at one path, one after the other, each replaced while it runs.
	{name: "replaced", args: `-- sh -c 'for i in 1 2 3 4 5 6; do cp $0/exe$i /tmp/p.new; mv /tmp/p.new /tmp/p; /tmp/p 4 20 & sleep 0.3; done; wait' $W`,
		copies: map[string][]string{"/tmp/p": {"exe1", "exe2", "exe3", "exe4", "exe5", "exe6"}}},
	{name: "overlay", args: "-- sh -c 'for i in 1 2 3; do /tmp/merged/exe$i 3; done'",
		before: "mkdir -p /tmp/lower /tmp/upper /tmp/wd /tmp/merged && cp $W/exe1 $W/exe2 /tmp/lower && cp $W/exe3 /tmp/upper\n" +
			"mount -t overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/wd overlay /tmp/merged || echo no overlay >>/mnt/failed",
		after:  "umount /tmp/merged",
		copies: map[string][]string{"/tmp/merged/exe1": {"exe1"}, "/tmp/merged/exe2": {"exe2"}, "/tmp/merged/exe3": {"exe3"}}},
	// Two programs at one path, in two roots and in a mount namespace.
	{name: "roots", args: `-- sh -c 'chroot /tmp/r1 /p 3; chroot /tmp/r2 /p 3; unshare -m sh -c "mount --bind $0/exe5 /tmp/r1/p; chroot /tmp/r1 /p 3"; chroot /tmp/r1 /p 3' $W`,
		before: "for i in 1 2; do mkdir -p /tmp/r$i; cp $W/exe$i /tmp/r$i/p; for d in lib lib64 usr; do mkdir -p /tmp/r$i/$d; mount --bind /$d /tmp/r$i/$d; done; done",
		copies: map[string][]string{"/p": {"exe1", "exe2", "exe5"}, "/tmp/r1/p": {"exe1", "exe5"}, "/tmp/r2/p": {"exe2"}}},
	// Two at once, one of them of the whole machine. Each sees what the other's
	// kernel cache has made of identifiers.
	{name: "two", args: "-- $W/execstorm $W 6 4",
		before: "$W/ustack live --format=json -o /mnt/two-all.json 2>/mnt/two-all.err & all=$!; until grep -q 'clock mono' /mnt/two-all.err; do sleep 0.2; done",
		after:  "kill -INT $all; wait $all"},
	{name: "two-all"},
	// Stacks of programs that end, which the kernel makes when their memory may be gone.
	{name: "exit-group", args: "-e syscalls:sys_enter_futex -e syscalls:sys_enter_exit_group -- $W/execstorm $W 3 4"},
	// More instances with deferred stacks than the kernel has room for: stock ones do.
	{name: "instances", args: "--unwind=fp -- $W/execstorm $W 2 3",
		before: "cd /sys/kernel/tracing/instances; for i in $(seq 70); do mkdir full$i; echo 1 >full$i/options/userstacktrace_delay || break; done; cd /",
		after: "grep -q 'kernel refuses deferred' /mnt/instances.err || echo 'instances: the kernel has room for more' >>/mnt/failed\n" +
			"rmdir /sys/kernel/tracing/instances/full*"},
	// A CPU goes offline and comes again.
	{name: "hotplug", args: `-- sh -c "$W/execstorm $W 1 4; $W/execstorm $W 3 4 & sleep 0.7; echo 0 >$cpu; sleep 0.7; echo 1 >$cpu; wait"`, lossy: true,
		before: "cpu=/sys/devices/system/cpu/cpu1/online",
		after:  "grep -q 'went offline [1-9]' /mnt/hotplug.err || echo 'hotplug: no CPU went' >>/mnt/failed"},
	{name: "syscalls", args: "-e 'syscalls:*' -b 16384 -- $W/execstorm $W 2 3"},
}

// Shares of the tagged frames that must have a name, of runs that lose nothing.
// A hash names what a process had mapped a moment ago, too.
var labNamed = map[string]float64{"inode": 0.99, "hash": 0.97}

var labOnly = flag.String("lab-only", "", "with TestLab: the runs to make, a regular expression of their names")

// labWanted reports whether a run is to be made.
func labWanted(t *testing.T, name string) bool {
	t.Helper()
	only, err := regexp.Compile("^(?:" + *labOnly + ")$")
	if err != nil {
		t.Fatalf("-lab-only: %v", err)
	}
	return *labOnly == "" || only.MatchString(name)
}

var (
	labRounds = flag.Int("lab-rounds", 1, "how often TestLab boots each kernel of the lab")
	labScale  = flag.Int("lab-scale", 1, "how many times as long as usual the workloads of TestLab run: 7 give more than 200,000 tagged frames")
)

// labCount is a workload with how often it does what it does.
var labCount = regexp.MustCompile(`(\$W/(?:(?:tag|exec)storm \$W|jit) )([0-9]+)`)

// labSums are the counts of many runs: of those that may lose nothing, of those that ask
// processes what they have mapped, and of those that lose records.
type labSums struct{ whole, query, lossy labCounts }

// of is the sum that a run belongs to.
func (s *labSums) of(r *labRun) *labCounts {
	switch {
	case r.query():
		return &s.query
	case r.lossy:
		return &s.lossy
	}
	return &s.whole
}

// add adds the counts of another kernel.
func (s *labSums) add(o *labSums) {
	s.whole.add(&o.whole)
	s.query.add(&o.query)
	s.lossy.add(&o.lossy)
}

func (s *labSums) String() string {
	var all labCounts
	for _, c := range []*labCounts{&s.whole, &s.query, &s.lossy} {
		all.add(c)
	}
	return fmt.Sprintf("%d tagged frames\n\tall: %v\n\twithout loss and queries: %v\n\tqueries: %v\n\twith loss: %v",
		all.taggedFrames(), &all, &s.whole, &s.query, &s.lossy)
}

// TestLab boots the kernels of the lab, which have the posted series of deferred
// stacks, runs live there, and holds every frame against the truth. It takes
// minutes: USTACK_LAB=must runs it.
func TestLab(t *testing.T) {
	lab, work := needLab(t)
	var kernels labSums
	for _, kernel := range []struct{ image, arguments string }{
		{"hash", ""}, {"inode", ""}, {"hash", "deferred_first"}, {"hash", "deferred_byinode"},
	} {
		name := strings.TrimSuffix(kernel.image+"-"+kernel.arguments, "-")
		t.Run(name, func(t *testing.T) {
			var sum labSums
			for range *labRounds {
				out := lab.boot(t, work, kernel.image, kernel.arguments, labScript(t))
				for _, r := range labRuns {
					if !labWanted(t, r.name) {
						continue
					}
					c := checkLabRun(t, work, out, kernel.image, r)
					t.Logf("%s: %v", r.name, c)
					sum.of(&r).add(c)
				}
			}
			t.Logf("%v", &sum)
			kernels.add(&sum)
		})
	}
	t.Logf("%v", &kernels)
}

func checkLabRun(t *testing.T, work, out, image string, r labRun) *labCounts {
	f, err := os.Open(filepath.Join(out, r.name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	truth := newLabTruth(t, work)
	truth.query, truth.mayLackID, truth.copies, truth.anywhere = r.query(), true, r.copies, r.anywhere
	c := truth.check(r.name, f)
	bad := ""
	switch {
	case c.tagged == 0 || c.right+c.anonymous == 0 && !truth.query:
		bad = "nothing was named"
	case strings.Contains(r.args, "exit_group") && c.ends == 0:
		bad = "no program has a stack at its end"
	case !r.lossy && c.named() < labNamed[image]:
		bad = fmt.Sprintf("%.2f%% of the frames have a name, want %.0f%%", 100*c.named(), 100*labNamed[image])
	case r.lossy && c.unresolved[pathOnly]*100 > 3*c.inFiles(): // a loss takes no build ID away
		bad = fmt.Sprintf("%d of %d frames in files have a path and no build ID", c.unresolved[pathOnly], c.inFiles())
	}
	if bad != "" {
		stderr, _ := os.ReadFile(filepath.Join(out, r.name+".err"))
		t.Errorf("%s: %s: %v\n%s", r.name, bad, c, stderr)
	}
	return c
}

// lab is the directory with the kernels and what boots them.
type lab string

// needLab skips a test where the lab cannot run, and builds what the guests run
// into a directory: they see the host's files, but for /tmp.
func needLab(t *testing.T) (l lab, work string) {
	t.Helper()
	if os.Getenv("USTACK_LAB") == "" {
		t.Skip("USTACK_LAB is unset: the kernels of the lab are not booted")
	}
	dir, err := filepath.Abs("../../../shared/lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("USTACK_LAB is set, and the lab is not there: %v", err)
	}
	for _, program := range []string{"qemu-system-x86_64", "gcc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("USTACK_LAB is set: %v", err)
		}
	}
	work, err = os.MkdirTemp("/var/tmp", "ustack-lab-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(work) })
	if err := os.Chmod(work, 0o755); err != nil {
		t.Fatal(err)
	}
	labCommand(t, filepath.Join(dir, "workloads/build"), work)
	build := exec.Command("go", "build", "-o", filepath.Join(work, "ustack"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building ustack: %v\n%s", err, out)
	}
	return lab(dir), work
}

func labCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// labScript runs all labRuns.
func labScript(t *testing.T) string {
	t.Helper()
	var script strings.Builder
	for _, r := range labRuns {
		if r.args != "" && labWanted(t, r.name) {
			script.WriteString(r.script())
		}
	}
	return script.String()
}

// boot runs shell code in a guest, with the directory of the workloads as $W, and returns
// the directory of what it wrote to /mnt. A file failed there is a failure.
func (l lab) boot(t *testing.T, work, image, arguments, script string) string {
	t.Helper()
	out, err := os.MkdirTemp("/var/tmp", "ustack-lab-out-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(out) })
	path := filepath.Join(work, "guest.sh")
	if err := os.WriteFile(path, []byte("W="+work+"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(string(l), "boot"), image, path, "2", arguments)
	cmd.Env = append(os.Environ(), "SHARE="+out, fmt.Sprint("TMO=", 900**labScale))
	console, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("booting %s: %v\n%s", image, err, console)
	}
	if failed, err := os.ReadFile(filepath.Join(out, "failed")); err == nil {
		t.Errorf("%s", failed)
	}
	dmesg, err := os.ReadFile(filepath.Join(out, "dmesg.txt"))
	if err != nil {
		t.Fatalf("the guest did not come to its end: %v\n%s", err, console)
	}
	for _, bad := range []string{"Oops", "BUG:", "WARNING:"} {
		if strings.Contains(string(dmesg), bad) {
			t.Errorf("the kernel's log has %q:\n%s", bad, dmesg)
		}
	}
	return out
}
