//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/tracefs/instance"
)

// hammered is what reading the trace of a hammering process took.
type hammered struct {
	cpu        time.Duration
	read, lost float64
	rss        int64 // KiB
}

// BenchmarkLiveAgainstCat compares live with "cat trace_pipe", both to
// /dev/null, while four threads make futex calls as fast as they can:
//
//	go test -run '^$' -bench LiveAgainstCat -benchtime 3x ./cmd/ustack
//
// The two run in turn, in instances of their own with the same settings:
//
//	cat-cpu-s/M    CPU time for a million records read
//	live-cpu-s/M   the same for ustack live
//	cpu-x-cat      the ratio
//	cat-lost-%     records lost, of all that were made
//	live-RSS-MB    largest resident set
func BenchmarkLiveAgainstCat(b *testing.B) {
	needLive(b)
	work := filepath.Join(b.TempDir(), "work")
	compile(b, work, "work.c", "-ldl")
	bin := ustackBinary(b)
	var cat, live hammered
	for b.Loop() {
		cat.add(catHammer(b, work, os.DevNull, four))
		live.add(liveHammer(b, bin, work, four, "live", "-o", os.DevNull))
	}
	reportHammered(b, &cat, &live)
}

// BenchmarkRecordAgainstCat compares record with "cat trace_pipe > file" in the
// same way.
func BenchmarkRecordAgainstCat(b *testing.B) {
	needLive(b)
	work := filepath.Join(b.TempDir(), "work")
	compile(b, work, "work.c", "-ldl")
	bin := ustackBinary(b)
	var cat, record hammered
	for b.Loop() {
		dir := b.TempDir()
		cat.add(catHammer(b, work, filepath.Join(dir, "cat"), four))
		record.add(liveHammer(b, bin, work, four, "record", "-o", filepath.Join(dir, "report")))
	}
	reportHammered(b, &cat, &record)
}

// BenchmarkStorm has one thread make futex calls as fast as it can, with a buffer
// of 4 MB a CPU, while each of these reads, in turn:
//
//	go test -run '^$' -bench Storm -benchtime 3x ./cmd/ustack
//
//	X-cpu     CPU time for a record, of that of cat
//	X-lost-%  records lost, of all that were made
//	calls/s   that the thread made while futex --live read
//	X-bytes   of the report for a record; of perf.data for a sample, which is an event
//	          with its stack, so two records
//	perf-…    perf record -g on the same events: samples lost, of all
func BenchmarkStorm(b *testing.B) {
	needLive(b)
	work := filepath.Join(b.TempDir(), "work")
	compile(b, work, "work.c", "-ldl")
	bin := ustackBinary(b)
	one := storm{threads: 1, kb: 4096}
	var cat, futex, live, record, pages hammered
	var sizes [2]float64
	report := func(i int, flags ...string) hammered {
		name := filepath.Join(b.TempDir(), "report")
		h := liveHammer(b, bin, work, one, append([]string{"record", "-o", name}, flags...)...)
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		sizes[i] += float64(info.Size())
		return h
	}
	for b.Loop() {
		cat.add(catHammer(b, work, os.DevNull, one))
		futex.add(liveHammer(b, bin, work, one, "futex", "--live", "--interval=0"))
		live.add(liveHammer(b, bin, work, one, "live", "-o", os.DevNull))
		record.add(report(0))
		pages.add(report(1, "--format=pages"))
	}
	perRecord := func(h *hammered) float64 { return h.cpu.Seconds() / h.read }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perRecord(&cat)*1e6, "cat-cpu-s/M")
	for name, h := range map[string]*hammered{"cat": &cat, "futex": &futex, "live": &live, "record": &record, "pages": &pages} {
		b.ReportMetric(perRecord(h)/perRecord(&cat), name+"-cpu")
		b.ReportMetric(100*h.lost/(h.lost+h.read), name+"-lost-%")
	}
	const perCall = 4 // two events, two stacks
	b.ReportMetric((futex.read+futex.lost)/perCall/2/float64(b.N), "calls/s")
	b.ReportMetric(sizes[0]/record.read, "record-bytes")
	b.ReportMetric(sizes[1]/pages.read, "pages-bytes")
	lost, size := perfLost(b, work, one)
	b.ReportMetric(100*lost, "perf-lost-%")
	b.ReportMetric(size, "perf-bytes")
}

// perfLost is the part of the samples that perf record loses, and the bytes of its file for
// one, 0 where there is no perf.
func perfLost(b *testing.B, work string, how storm) (part, size float64) {
	b.Helper()
	perf, err := exec.LookPath("perf")
	if err != nil {
		return 0, 0
	}
	victim, start := hammer(b, work, how)
	dir := b.TempDir()
	data, control, ack := filepath.Join(dir, "perf.data"), fifo(b, filepath.Join(dir, "control")), fifo(b, filepath.Join(dir, "ack"))
	record := exec.Command(perf, "record", "-g", "-o", data, "-e", "syscalls:sys_enter_futex", "-e", "syscalls:sys_exit_futex",
		"-p", strconv.Itoa(victim.Process.Pid), "--delay=-1", "--control=fifo:"+control.Name()+","+ack.Name())
	var said bytes.Buffer
	record.Stderr = &said
	if err := record.Start(); err != nil {
		b.Fatal(err)
	}
	enable(b, control, ack)
	start()
	if err := victim.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := record.Wait(); err != nil {
		b.Fatalf("%v: %v\n%s", record.Args, err, said.String())
	}
	stats, err := exec.Command(perf, "report", "-i", data, "--stats").Output()
	if err != nil {
		b.Fatal(err)
	}
	count := func(name string) (n float64) {
		for _, m := range regexp.MustCompile(name+` events:\s+(\d+)`).FindAllSubmatch(stats, -1) {
			v, _ := strconv.ParseFloat(string(m[1]), 64)
			n = max(n, v)
		}
		return n
	}
	samples, lost := count("SAMPLE"), count("LOST_SAMPLES")
	info, err := os.Stat(data)
	if err != nil {
		b.Fatal(err)
	}
	return lost / (samples + lost), float64(info.Size()) / samples
}

func reportHammered(b *testing.B, cat, live *hammered) {
	b.Helper()
	perMillion := func(h *hammered) float64 { return h.cpu.Seconds() / h.read * 1e6 }
	b.ReportMetric(perMillion(cat), "cat-cpu-s/M")
	b.ReportMetric(perMillion(live), "live-cpu-s/M")
	b.ReportMetric(perMillion(live)/perMillion(cat), "cpu-x-cat")
	b.ReportMetric(100*cat.lost/(cat.lost+cat.read), "cat-lost-%")
	b.ReportMetric(100*live.lost/(live.lost+live.read), "live-lost-%")
	b.ReportMetric(float64(live.rss)*1024/1e6, "live-RSS-MB")
	b.ReportMetric(0, "ns/op")
}

func (h *hammered) add(o hammered) {
	h.cpu += o.cpu
	h.read += o.read
	h.lost += o.lost
	h.rss = max(h.rss, o.rss)
}

// storm is how a process hammers: with how many threads, and a buffer of how many
// KiB a CPU, 0 for what the kernel gives.
type storm struct {
	threads, kb int
}

// four share two CPUs with the reader.
var four = storm{threads: 4}

// hammer starts a process that hammers once start is called.
func hammer(b *testing.B, work string, how storm) (cmd *exec.Cmd, start func()) {
	b.Helper()
	cmd = exec.Command(work, "hammer", "2", strconv.Itoa(how.threads))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close() })
	return cmd, func() {
		if _, err := io.WriteString(in, "x"); err != nil {
			b.Fatal(err)
		}
	}
}

func cpuTime(cmd *exec.Cmd) (time.Duration, int64) {
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss
}

func catHammer(b *testing.B, work, out string, how storm) (h hammered) {
	b.Helper()
	root, err := instance.Find("")
	if err != nil {
		b.Fatal(err)
	}
	in, err := root.Create()
	if err != nil {
		b.Fatal(err)
	}
	defer in.Remove()
	victim, start := hammer(b, work, how)
	sel, err := root.Select(instance.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	for _, err := range []error{
		in.Configure(instance.Config{Clock: clock, BufferKB: how.kb}), in.Enable(sel.Events), in.SetPIDs([]int{victim.Process.Pid}, true),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	if _, err := in.SetStacks(instance.StockStacks); err != nil {
		b.Fatal(err)
	}
	cat := exec.Command("cat", filepath.Join(in.Path(), "trace_pipe"))
	if cat.Stdout, err = os.OpenFile(out, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := in.Start(); err != nil {
		b.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		b.Fatal(err)
	}
	start()
	if err := victim.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := in.Stop(); err != nil {
		b.Fatal(err)
	}
	// It ends at the end of the buffer. But if it was just about to wait, it is not
	// woken.
	late := time.AfterFunc(5*time.Second, func() { _ = cat.Process.Kill() })
	if err := cat.Wait(); err != nil && late.Stop() {
		b.Fatal(err)
	}
	stats, err := in.Stats()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range stats {
		h.read += float64(s.ReadEvents)
		h.lost += float64(s.Lost())
	}
	h.cpu, h.rss = cpuTime(cat)
	return h
}

var (
	totalsLine = regexp.MustCompile(`ustack: (\d+) events, (\d+) stacks`)
	lostLine   = regexp.MustCompile(`lost (\d+) records`)
)

// liveHammer hammers while a command of ours reads.
func liveHammer(b *testing.B, bin, work string, how storm, command ...string) (h hammered) {
	b.Helper()
	victim, start := hammer(b, work, how)
	command = append(command, "-p", strconv.Itoa(victim.Process.Pid), "-b", strconv.Itoa(how.kb))
	live := exec.Command(bin, command...)
	stderr := &startLine{begun: make(chan struct{})}
	live.Stderr = stderr
	if err := live.Start(); err != nil {
		b.Fatal(err)
	}
	<-stderr.begun
	traces(b, live)
	start()
	if err := victim.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		b.Fatalf("%v\n%s", err, stderr.text.String())
	}
	h.cpu, h.rss = cpuTime(live)
	for _, m := range [][]string{totalsLine.FindStringSubmatch(stderr.text.String())} {
		for _, n := range m[min(1, len(m)):] {
			v, _ := strconv.ParseFloat(n, 64)
			h.read += v
		}
	}
	if m := lostLine.FindStringSubmatch(stderr.text.String()); m != nil {
		h.lost, _ = strconv.ParseFloat(m[1], 64)
	}
	if h.read == 0 {
		b.Fatal(fmt.Sprint("no totals\n", stderr.text.String()))
	}
	return h
}

// startLine is an output that signals its first line.
type startLine struct {
	text  bytes.Buffer
	begun chan struct{}
	ended bool
}

func (s *startLine) Write(b []byte) (int, error) {
	s.text.Write(b)
	if !s.ended && strings.Contains(s.text.String(), "\n") {
		s.ended = true
		close(s.begun)
	}
	return len(b), nil
}
