package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"time"
)

// command is a run of ustack.
type command struct {
	name string
	args []string
	// old is what may be said by kernels that lack what it needs.
	old string
}

// commands are those that read the mappings of all processes.
var commands = []command{
	{"maps", []string{"maps"}, ""},
	{"maps, all of them", []string{"maps", "--all", "--files"}, ""},
	{"maps by ioctl", []string{"maps", "--maps-source=ioctl"}, "Linux 6.11"},
	{"maps by text", []string{"maps", "--maps-source=text"}, ""},
	{"maps --save", []string{"maps", "--save=/tmp/dump.tar"}, ""},
	{"live by perf", []string{"live", "--mappings=perf", "-o", "/tmp/1", "--", "/disk/guest", "work"}, noStacks},
	{"live by perf, all processes", []string{"live", "--mappings=perf", "-o", "/tmp/2", "--duration=2s"}, noStacks},
	{"live by queries", []string{"live", "--mappings=query", "-o", "/tmp/3", "--", "/disk/guest", "work"}, noStacks},
	{"live by queries, text", []string{"live", "--mappings=query", "--maps-source=text", "-o", "/tmp/4", "--duration=2s"}, noStacks},
	{"live --save", []string{"live", "--save=/tmp/saved", "-o", "/tmp/5", "--", "/disk/guest", "work"}, noStacks},
	{"record", []string{"record", "-o", "/tmp/6", "--", "/disk/guest", "work"}, ""},
	{"record by queries", []string{"record", "--mappings=query", "-o", "/tmp/7", "--duration=2s"}, ""},
	{"futex --live", []string{"futex", "--live", "--", "/disk/guest", "work"}, ""},
	{"futex --live by queries", []string{"futex", "--live", "--mappings=query", "--duration=2s"}, ""},
	{"futex --live by BPF, copies", []string{"futex", "--live", "--source=bpf", "--unwind=copy", "--min-wait=100us", "-o", "/tmp/8", "--", "/disk/guest", "work"}, "it takes Linux"},
	{"doctor", []string{"doctor"}, "live does not work: user stacks"},
}

// limit is how long a command may take, on a processor that is emulated.
const limit = 90 * time.Second

// run runs a command, and says how it ended.
func (c *command) run() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/disk/ustack", c.args...)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start).Round(100 * time.Millisecond)
	switch {
	case err == nil:
		say("%s: ok, %v", c.name, took)
	case c.old != "" && strings.Contains(out.String()+errs.String(), c.old):
		say("%s: this kernel lacks what it needs, and that was said", c.name)
	default:
		say("FAIL: %s: %v after %v\n%s", c.name, err, took, tail(errs.String()))
	}
}

// tail is the last lines of a text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}

// checkIDs compares what maps says of this program, which lies on ext4 and runs in
// so many processes, with its note.
func checkIDs(processes int) {
	f, err := elf.Open("/disk/guest")
	if err != nil {
		say("FAIL: %v", err)
		return
	}
	defer f.Close()
	want := ""
	if s := f.Section(".note.gnu.build-id"); s != nil {
		b, err := s.Data()
		if err == nil && len(b) > 16 {
			want = hex.EncodeToString(b[16:])
		}
	}
	for _, source := range []string{"ioctl", "text"} {
		out, err := exec.Command("/disk/ustack", "maps", "--json", "--maps-source="+source).Output()
		if err != nil && source == "ioctl" {
			continue // said before
		}
		right, wrong := 0, 0
		for line := range bytes.Lines(out) {
			var m struct {
				Path string `json:"path"`
				ID   string `json:"build_id"`
			}
			if json.Unmarshal(line, &m) == nil && m.Path == "/disk/guest" {
				if m.ID == want {
					right++
				} else {
					wrong++
				}
			}
		}
		word := ""
		if wrong > 0 || right != processes || want == "" {
			word = "FAIL: "
		}
		say("%sbuild IDs by %s: %d right, %d wrong", word, source, right, wrong)
	}
}

// control shows what asking would have done. It comes last: the kernel may be
// of no use after it.
func control(log *kernelLog) {
	if _, err := os.Stat("/disk/nocontrol"); err == nil {
		return
	}
	for _, kind := range []string{"negative", "memfd"} {
		cmd := exec.Command("/disk/guest", "ask", kind)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			say("%s: %v", kind, err)
			continue
		}
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		what := "is in the kernel for 10 s"
		select {
		case <-ended:
			what = strings.TrimSpace(out.String())
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
		}
		if bad := log.faults(); bad != "" {
			what = "crashed: " + strings.SplitN(bad, "\n", 2)[0]
		}
		say("asked for the build ID of %s: who asks %s", kind, what)
	}
}
