package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/cause"
	"ustack/render/outfile"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents is the text of a report, as far as there is one.
func contents(t testing.TB, path string) (string, error) {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	check(t, err)
	defer z.Close()
	b, err := io.ReadAll(z)
	return string(b), err
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report")
	f, err := Create(name, 0)
	check(t, err)
	_, err = io.WriteString(f, "one\n")
	check(t, err)
	check(t, f.Sync())
	if got, err := contents(t, name+partial); got != "one\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("before the end: %q, %v", got, err)
	}
	check(t, f.Finish([]byte("end\n")))
	if got, err := contents(t, name); got != "one\nend\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(name + partial); err == nil {
		t.Error("the temporary name is left")
	}
	info, err := os.Stat(name)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestFileDoesNotFollow: a symbolic link in the place of the report or of the
// temporary file is not written through, nor another name of a file.
func TestFileDoesNotFollow(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	check(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for i, to := range []string{victim, os.DevNull, "missing"} {
		for _, suffix := range []string{"", partial} {
			name := filepath.Join(dir, fmt.Sprint("report", i, len(suffix)))
			check(t, os.Symlink(to, name+suffix))
			if _, err := Create(name, 0); !errors.Is(err, outfile.ErrLink) {
				t.Errorf("%q leads to %s: %v", name+suffix, to, err)
			}
		}
	}
	name := filepath.Join(dir, "linked")
	check(t, errors.Join(os.Link(victim, name), os.Link(victim, name+partial)))
	f, err := Create(name, 0)
	check(t, err)
	check(t, f.Finish([]byte("end\n")))
	if got, err := contents(t, name); got != "end\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if b, err := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("the victim is %q, %v", b, err)
	}
}

// TestFileLimit: whatever is written, the file is never larger than allowed,
// and holds what was accepted.
func TestFileLimit(t *testing.T) {
	capturetest.SkipShort(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		limit := int64(smallestSize + rng.IntN(40<<10))
		name := filepath.Join(t.TempDir(), "report")
		f, err := Create(name, limit)
		check(t, err)
		var want bytes.Buffer
		random := rng.IntN(2) == 0
		for range 200 {
			p := bytes.Repeat([]byte("a line\n"), 1+rng.IntN(100))
			if random {
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
			}
			_, err := f.Write(p)
			if errors.Is(err, ErrFull) {
				continue // a smaller one may fit
			}
			check(t, err)
			want.Write(p)
			if rng.IntN(20) == 0 {
				check(t, f.Sync())
			}
		}
		last := bytes.Repeat([]byte{'x'}, tail/2)
		check(t, f.Finish(last))
		want.Write(last)
		info, err := os.Stat(name)
		check(t, err)
		if info.Size() > limit {
			t.Errorf("%d bytes, %d are allowed", info.Size(), limit)
		}
		if got, err := contents(t, name); got != want.String() || err != nil {
			t.Errorf("%d bytes of text, %v, want %d", len(got), err, want.Len())
		}
	}
}

func TestRing(t *testing.T) {
	now := time.Unix(1000, 0)
	r, err := NewRing(RingOptions{Time: 10 * time.Second})
	check(t, err)
	for i := range 100 {
		r.At(tracefs.Time(1 + i))
		r.Write([]byte(strings.Repeat(string(rune('a'+i%26)), 10)+"\n"), Left{Events: 1}, now.Add(time.Duration(i)*time.Second/2))
	}
	name := filepath.Join(t.TempDir(), "report")
	f, err := Create(name, 0)
	check(t, err)
	oldest := r.Oldest(f.Room(), now.Add(50*time.Second))
	had, left, err := r.WriteTo(f, now.Add(50*time.Second))
	check(t, err)
	check(t, f.Finish(nil))
	got, err := contents(t, name)
	check(t, err)
	n := strings.Count(got, "\n")
	if n < 18 || n > 24 || had.Events != int64(n) || left != (Left{}) {
		t.Errorf("%d lines of the last ten seconds, %v in the ring, %v left out", n, had, left)
	}
	if want := tracefs.Time(1 + 100 - n); oldest != want {
		t.Errorf("the oldest event is of %d, want %d", oldest, want)
	}
	if !strings.HasSuffix(got, strings.Repeat(string(rune('a'+99%26)), 10)+"\n") {
		t.Errorf("the last line is not there: %q", got)
	}
}

// TestRingNewest: what does not fit into the report is the oldest.
func TestRingNewest(t *testing.T) {
	now := time.Unix(1000, 0)
	r, err := NewRing(RingOptions{Bytes: 1 << 20})
	check(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		b := make([]byte, 1000)
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		b[0] = byte(i)
		r.At(tracefs.Time(100 + i))
		r.Write(b, Left{Events: 1, Stacks: 2}, now.Add(time.Duration(2*i)*time.Second))
		r.close(now)
	}
	name := filepath.Join(t.TempDir(), "report")
	f, err := Create(name, 8<<10)
	check(t, err)
	oldest := r.Oldest(f.Room(), now)
	had, left, err := r.WriteTo(f, now)
	check(t, err)
	check(t, f.Finish(nil))
	got, err := contents(t, name)
	check(t, err)
	kept := len(got) / 1000
	out := int64(20 - kept)
	if kept < 4 || (left != Left{out, 2 * out}) || (had != Left{20, 40}) || got[0] != byte(out) {
		t.Errorf("%d kept of %v, the first is %d, %v left out", kept, had, got[0], left)
	}
	if want := tracefs.Time(100 + 20 - kept); oldest > want || oldest < want-1 {
		t.Errorf("the oldest event is of %d, want %d or the one before", oldest, want)
	}
}

func TestTriggers(t *testing.T) {
	for word, want := range map[string]Trigger{
		"futex-wait>500ms":         {Wait: 500 * time.Millisecond},
		"event=sched:sched_switch": {Event: "sched:sched_switch"},
		"signal":                   {Signal: true},
	} {
		got, err := ParseTrigger(word)
		if err != nil || got != want || got.String() != word {
			t.Errorf("%q is %+v (%q), %v", word, got, got, err)
		}
	}
	for _, word := range []string{"", "futex-wait>", "futex-wait>-1s", "futex-wait>5", "event=", "event=x", "event=*:x", "event=a:b/c/", "sigusr1"} {
		if got, err := ParseTrigger(word); err == nil {
			t.Errorf("%q is %+v", word, got)
		}
	}
}

// pending is a text of the kernel's as the resolver gives it out, escaped.
func pending(t testing.TB, txt string) *resolve.Pending {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	b := &tracefs.Batch{Text: []byte(txt)}
	_, err := scan.Scan(b, text.MoreNever)
	check(t, err)
	text.Escape(b)
	res := resolve.New(resolve.Options{})
	res.Add(b)
	res.End()
	return res.Next()
}

func TestDetector(t *testing.T) {
	const head = "            task-%s       [000] .....   %s: "
	line := func(tid, stamp, body string) string {
		return strings.NewReplacer("%s:", stamp+":", "%s ", tid+" ").Replace(head) + body + "\n"
	}
	wait := func(tid, stamp string) string {
		return line(tid, stamp, "sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)")
	}
	for _, test := range []struct {
		name, text, why string
	}{
		{"short", wait("7", "100.000000") + line("7", "100.100000", "sys_futex -> 0x0"), ""},
		{"long", wait("7", "100.000000") + line("7", "100.700000", "sys_futex -> 0x0"), "futex-wait>500ms (700ms)"},
		{"of another thread", wait("7", "100.000000") + line("8", "100.700000", "sys_futex -> 0x0"), ""},
		{"a wake", line("7", "100.000000", "sys_futex(uaddr: 0x1000, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)") + line("7", "101.000000", "sys_futex -> 0x1"), ""},
		{"interrupted", wait("7", "100.000000") + line("7", "100.300000", "sys_futex -> 0xfffffffffffffdfc") +
			line("7", "100.300001", "sys_restart_syscall()") + line("7", "100.600000", "sys_restart_syscall -> 0x0"), "futex-wait>500ms (600ms)"},
		{"an event", line("7", "100.000000", "oom_kill: pid=7"), "event=oom_kill"},
		{"a call", line("7", "100.000000", "sys_openat(dfd: 1)"), "event=sys_openat"},
		{"its end", line("7", "100.000000", "sys_openat -> 0x3"), ""},
		{"another call", line("7", "100.000000", "sys_read(fd: 3)") + line("7", "101.000000", "sys_read -> 0x0"), ""},
	} {
		d := NewDetector([]Trigger{{Wait: 500 * time.Millisecond}, {Event: "oom:oom_kill"}, {Event: "syscalls:sys_enter_openat"}, {Signal: true}})
		if why := fired(d, pending(t, test.text)); why != test.why {
			t.Errorf("%s: %q, want %q", test.name, why, test.why)
		}
	}
}

// fired returns the triggers in a batch.
func fired(d *Detector, h *resolve.Pending) string {
	var all []string
	d.Batch(h, func(why string, _ *cause.Cause) { all = append(all, why) })
	return strings.Join(all, ", ")
}

// TestCompactAgain: a trace that names its files comes back from the compact
// form as it was.
func TestCompactAgain(t *testing.T) {
	const in = "            task-7       [000] .....   100.000001: sys_futex -> 0x0\n" +
		"            task-7       [000] .....   100.000002: <user stack trace>\n" +
		" =>  <0000000000001234> : path=/opt/a b [x] build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}\n" +
		" =>  <0000000000000fff> : [vdso] (unresolved: vdso)\n" +
		" =>  <0000000000001238> : path=/opt/c build_id={0x0,0x0,0x0,0x0,0x0}\n" +
		"            task-7       [000] .....   100.000003: sys_futex -> 0x1\n"
	var compact bytes.Buffer
	c := NewCompact(&compact)
	check(t, c.Batch(pending(t, in)))
	if bytes.Contains(compact.Bytes(), []byte(" : path=")) || strings.Count(compact.String(), "file_map: hash=0x") != 2 {
		t.Errorf("compact:\n%s", &compact)
	}
	h := pending(t, compact.String())
	var got []string
	for i := range h.Records {
		if h.Records[i].Kind == tracefs.KindStack {
			out, _ := h.StackAttributions(i)
			for k := range out {
				if f := out[k].File; f != nil {
					got = append(got, f.Path+" "+f.BuildID.Hex())
				} else {
					got = append(got, out[k].Reason.String())
				}
			}
		}
	}
	want := []string{"/opt/a b [x] b6e5d9c258e911b2e478f8dedf22400e53225509", filemap.VDSO.String(), "/opt/c "}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q\n%s", got, want, &compact)
	}
}
