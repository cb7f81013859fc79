package sideband

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// logged returns a history and the log it writes.
func logged() (*History, *bytes.Buffer) {
	h, log := newHistory(space.New()), new(bytes.Buffer)
	h.log = &logWriter{w: log, buf: []byte(logHead + "mono\n")}
	return h, log
}

// happen does something to a history, at random.
func happen(h *History, rnd *rand.Rand, t tracefs.Time) {
	pid, other := 1+rnd.IntN(6), 1+rnd.IntN(6)
	m := randomMapping(rnd)
	switch rnd.IntN(23) {
	case 21:
		h.unshared(pid, t)
	case 19:
		h.Stack(1+rnd.IntN(20), t, []uint64{rnd.Uint64(), 0x401000, rnd.Uint64()}[:1+rnd.IntN(3)])
	case 20:
		h.LoseStacks(uint64(rnd.IntN(3)), max(0, t-tracefs.Time(rnd.IntN(20))), t)
	case 22:
		h.compat(pid, t)
	case 0:
		h.fork(pid, other, t)
	case 1:
		h.exec(pid, "x\ny \\", t)
	case 2:
		h.exit(pid, 1+rnd.IntN(20), t)
	case 3:
		h.exit(pid, pid, t)
	case 4:
		h.comm(pid, fmt.Sprint("comm ", t), t)
	case 5:
		h.thread(pid, 10+rnd.IntN(10), t)
	case 6:
		h.lost(rnd.IntN(4), 7, t-5, t)
	case 7:
		h.sure(t)
	case 8:
		h.gone(pid, t)
	case 9:
		p := &procmap.Process{PID: pid, Stat: procmap.Stat{Comm: "read\t", StartTime: uint64(rnd.IntN(3))}, Mappings: []procmap.Mapping{m}}
		h.read(p, []int{pid, 10 + rnd.IntN(10)}, rnd.IntN(2) == 0, t-tracefs.Time(rnd.IntN(10)), max(0, t-tracefs.Time(rnd.IntN(20))))
	case 10:
		h.exec(pid, "loading", t)
		h.loading(pid, t)
	case 11:
		h.loaded(pid, t)
	case 12:
		h.found(pid, &m, t, max(0, t-tracefs.Time(rnd.IntN(20))))
	case 13:
		h.unmapped(pid, m.Start, m.End, t)
	case 16:
		h.unknown(pid, m.Start, m.End, t)
	case 14:
		if pid != other {
			h.fork(pid, other, t)
			h.shared(pid, other, t)
		}
	case 15:
		if !m.BuildID.IsZero() {
			h.written([]mappedFile{{m.Name, m.BuildID}}, t-tracefs.Time(rnd.IntN(10)))
		}
	default:
		h.mapped(pid, &m, t)
	}
}

func randomMapping(rnd *rand.Rand) procmap.Mapping {
	const page = 0x1000
	from := uint64(rnd.IntN(16)) * page
	m := procmap.Mapping{Start: from, End: from + page*uint64(1+rnd.IntN(4)), Offset: uint64(rnd.IntN(4)) * page, Perms: procmap.Perms(rnd.IntN(16))}
	switch rnd.IntN(4) {
	case 0:
		m.Kind, m.Offset = procmap.Anonymous, 0
	case 1:
		m.Name, m.Inode, m.Dev, m.Generation = "/no build\nid\x7f\xff \\012", 3, procmap.Dev{Major: 8, Minor: 0x12345}, 4
	default:
		m.Name = fmt.Sprint("/lib ", rnd.IntN(3))
		m.BuildID, _ = elfid.New([]byte(m.Name))
	}
	return m
}

// answers are what a history answers to all questions there are.
func answers(h *History, last tracefs.Time) string {
	var b strings.Builder
	for t := tracefs.Time(0); t < last; t += 3 {
		fmt.Fprintln(&b, t, h.Gaps.Doubtful(t), h.Gaps.Open())
		for tid := range 20 {
			pid, late, ok := h.Threads.PID(tid, t)
			fmt.Fprintln(&b, tid, pid, late, ok)
		}
		for pid := range 7 {
			fmt.Fprintln(&b, h.Spaces.Space(pid).Loading(t, t+1))
			for addr := uint64(0x800); addr < 20*0x1000; addr += 0x1000 {
				if p, ok := h.Spaces.Lookup(pid, addr, t); ok {
					fmt.Fprintf(&b, "%d %#x: %+v %+v %#x %v\n", pid, addr, *p.Mapping.File, p.Mapping.Perms, p.Offset, p.Late)
				}
			}
		}
	}
	for pid := range 7 {
		for _, v := range h.Spaces.Space(pid).Versions() {
			fmt.Fprintf(&b, "%d %d %d %q %v %v\n", pid, v.From, v.To, v.Comm, v.StartTime, v.Fresh)
		}
	}
	return b.String()
}

// TestLog: a history of its log answers as the one that wrote it.
func TestLog(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h, log := logged()
		const last = 300
		for now := tracefs.Time(10); now < last; now++ {
			happen(h, rnd, now)
			if now%50 == 0 {
				h.log.until(now)
				if err := h.log.flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := h.log.flush(); err != nil {
			t.Fatal(err)
		}
		text := log.String()
		got, err := Load(space.New(), log)
		if err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, text)
		}
		if a, b := answers(h, last), answers(got, last); a != b {
			t.Fatalf("seed %d: the history of the log differs\n%s", seed, text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
			t.Errorf("seed %d: control characters in\n%q", seed, text)
		}
	}
}

// TestLogText: what a log looks like, word for word.
func TestLogText(t *testing.T) {
	h, log := logged()
	id, _ := elfid.Parse([]byte("7ebc65e52f2bbea498b4040fa92f7238377aaba9"))
	m := procmap.Mapping{Start: 0x5632c4fe0000, End: 0x5632c4fe4000, Offset: 0x2000, Perms: procmap.Read | procmap.Exec,
		Name: "/usr/bin/with\nfeed", BuildID: id, Dev: procmap.Dev{Major: 0xfe, Minor: 1}, Inode: 26, Generation: 3}
	jit := procmap.Mapping{Start: 0x1000, End: 0x2000, Perms: procmap.Exec | procmap.Shared, Kind: procmap.Anonymous}
	p := &procmap.Process{PID: 1, Stat: procmap.Stat{Comm: "init", StartTime: 5}, Mappings: []procmap.Mapping{jit, m}}
	h.log.vdso(id)
	h.read(p, []int{1, 4}, false, 58193790543, 0)
	h.read(p, []int{1, 4}, false, 58193790544, 0)
	h.fork(1, 7, 59000000000)
	h.exec(7, "a b\n", 59000000001)
	h.mapped(7, &m, 59000000002)
	h.comm(7, "", 59000000003)
	h.thread(7, 8, 59000000004)
	h.lost(1, 1<<40, 59000000004, 59000000005)
	h.exit(7, 8, 59000000006)
	h.gone(7, 60000000000)
	h.sure(60000000001)
	h.loading(7, 60000000002)
	h.loaded(7, 60000000003)
	h.found(1, &jit, 60000000004, 59000000000)
	h.log.until(61000000000)
	if err := h.log.flush(); err != nil {
		t.Fatal(err)
	}
	want := `# ustack side band 2 clock=mono
vdso 0.000000000 7ebc65e52f2bbea498b4040fa92f7238377aaba9
read 58.193790543 0.000000000 1 5 all:2 init
 1000-2000 --xs 0 00:00 0 0 anonymous - 
 5632c4fe0000-5632c4fe4000 r-xp 2000 fe:01 26 3 file 7ebc65e52f2bbea498b4040fa92f7238377aaba9 /usr/bin/with\012feed
seen 58.193790543 1 1
seen 58.193790543 1 4
fork 59.000000000 1 7
exec 59.000000001 7 a b\012
map 59.000000002 7 5632c4fe0000-5632c4fe4000 r-xp 2000 fe:01 26 3 file 7ebc65e52f2bbea498b4040fa92f7238377aaba9 /usr/bin/with\012feed
comm 59.000000003 7 
thread 59.000000004 7 8
lost 59.000000005 59.000000004 1 1099511627776
exit 59.000000006 7 8
gone 60.000000000 7
sure 60.000000001
loading 60.000000002 7
loaded 60.000000003 7
found 60.000000004 59.000000000 1 1000-2000 --xs 0 00:00 0 0 anonymous - 
until 61.000000000
`
	if got := log.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := Load(space.New(), strings.NewReader(want)); err != nil || again.VDSO != id {
		t.Errorf("vDSO %s (%v), want %s", again.VDSO.Hex(), err, id.Hex())
	}
}

// TestLogErrors: what is wrong is named with its line, and what was before it
// counts.
func TestLogErrors(t *testing.T) {
	const head = logHead + "mono\n"
	const good = head + "fork 1.000000000 1 2\n"
	for _, c := range []struct{ text, want string }{
		{"", "unexpected EOF"},
		{"what", "line 1: not a log of address spaces: it begins with \"what\""},
		{LogMark + "2\n", "line 1: not a log of address spaces"},
		{LogMark + "3 clock=mono\n", "line 1: a log of address spaces of an unknown version (known are 1 and 2): \"# ustack side band 3 clock=mono\""},
		{LogMark + "1 clock=mono\nunmap 1.000000000 1 1000 2000\n", `line 2: unknown change "unmap 1.000000000 1 1000 2000" in version 1`},
		{logHead + "local\n", "perf has no such clock"},
		{good + "dance 1.000000000\n", `line 3: unknown change "dance 1.000000000"`},
		{good + "fork\n", "line 3: no time"},
		{good + "fork 1.0 1 2\n", "line 3: no time"},
		{good + "fork 9999999999999.000000000 1 2\n", "line 3: no time"},
		{good + "fork 1.000000000 1\n", "line 3: no number"},
		{good + "fork 1.000000000 1 2 3\n", `line 3: no end of the line at "3"`},
		{good + "fork 1.000000000 1 -2\n", "line 3: no number"},
		{good + "fork 1.000000000 1 2147483648\n", "line 3: no number"},
		{good + "exit\n", "line 3: no time"},
		{good + "gone 1.000000000 x\n", "line 3: no number"},
		{good + "sure 1.000000000 x\n", "line 3: no end"},
		{good + "until 1.000000000 x\n", "line 3: no end"},
		{good + "vdso 1.000000000 0g\n", "line 3: no build ID"},
		{good + "vdso 1.000000000 11 12\n", "line 3: no end"},
		{good + "exec 1.000000000 x y\n", "line 3: no number"},
		{good + "lost 1.000000000 1 0 0\n", "line 3: no time"},
		{good + "unmap 1.000000000 1 1000 1000\n", "line 3: no range of addresses"},
		{good + "unmap 1.000000000 1 1000 2000 3\n", "line 3: no end"},
		{good + "unmap 1.000000000 1 1000 g\n", "line 3: no address"},
		{good + "written 1.000000000 0g /a\n", "line 3: no build ID"},
		{good + "share 1.000000000 1\n", "line 3: no number"},
		{good + "unshare 1.000000000 1 2\n", "line 3: no end"},
		{good + "map 1.000000000 1 1000-1000 r-xp 0 0:0 0 0 file - /a\n", "line 3: no range of addresses"},
		{good + "map 1.000000000 1 1000-2000 rwxq 0 0:0 0 0 file - /a\n", "line 3: no permissions"},
		{good + "map 1.000000000 1 1000-2000 r-xp 0 0:0 0 0 sock - /a\n", "line 3: no kind of memory"},
		{good + "map 1.000000000 1 1000-2000 r-xp 0 0:0 0 0 file 0g /a\n", "line 3: no build ID"},
		{good + "read 1.000000000 0.000000000 1 5 some:1 x\n", "line 3: no number of mappings"},
		{good + "read 1.000000000 0.000000000 1 5 all:99999999999 x\n", "line 3: no number of mappings"},
		{good + "read 1.000000000 0.000000000 1 5 all:1 x\n", "line 4: unexpected EOF"},
		{good + "read 1.000000000 0.000000000 1 5 all:1 x\nsure 1.000000000\n", "line 4: 0 mappings instead of 1"},
		{good + "read 1.000000000 0.000000000 1 5 all:0 " + strings.Repeat("x", maxLogLine), "line 3: bufio.Scanner: token too long"},
	} {
		h, err := Load(space.New(), strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200q: error %v, want %q", c.text, err, c.want)
		}
		if strings.HasPrefix(c.text, good) && h.Threads.Live(2) != 1 {
			t.Errorf("%.200q: what was before the error is lost", c.text)
		}
	}
}

// TestLogVersions: in a log of version 1 mappings can have gone and moved unseen, so
// nothing of it is sure.
func TestLogVersions(t *testing.T) {
	const lines = "mono\nread 1.000000000 0.000000000 1 5 all:1 x\n 1000-2000 r-xp 0 8:0 1 0 file - /a\nseen 1.000000000 1 1\nuntil 2.000000000\n"
	for head, late := range map[string]bool{LogMark + "1 clock=": true, LogMark + "2 clock=": false} {
		h, err := Load(space.New(), strings.NewReader(head+lines))
		if err != nil {
			t.Fatal(err)
		}
		p, ok := h.Lookup(1, 0x1800, 1_500_000_000)
		if !ok || p.Late != late || h.Unsure.Between(1_200_000_000, 1_500_000_000) != late {
			t.Errorf("%s: found %t, late %t", head, ok, p.Late)
		}
	}
}

// TestLogManyLives: of a number that many processes and threads had, one after the
// other, the log says all that live knew, which reads the changes a few at a time and
// forgets what is long over.
func TestLogManyLives(t *testing.T) {
	const lives, tid, parent, step = 400, 7, 1, 100
	h, log := logged()
	rnd := rand.New(rand.NewPCG(1, 1))
	var live []string
	ask := func(h *History, i int) string {
		at := tracefs.Time(step * (i + 1))
		var b strings.Builder
		for _, after := range []tracefs.Time{-1, 2, 20, 39, 45} {
			p, ok := h.Lookup(tid, 0x1800, at+after)
			born, ended, known := h.Threads.Life(tid, at+after)
			fmt.Fprint(&b, after, " ", p.PID, p.Late, p.Doubtful, ok, known)
			if known {
				fmt.Fprint(&b, " ", born, ended)
			}
			if ok {
				fmt.Fprint(&b, " ", p.Mapping.File.Name)
			}
			fmt.Fprintln(&b)
		}
		return b.String()
	}
	for i := range lives {
		at, pid := tracefs.Time(step*(i+1)), tid
		if rnd.IntN(2) == 0 {
			h.fork(parent, tid, at)
			h.exec(tid, "x", at+1)
		} else { // a thread of another process
			pid = 100 + i
			h.fork(parent, pid, at)
			h.thread(pid, tid, at+1)
		}
		h.mapped(pid, &procmap.Mapping{Start: 0x1000, End: 0x2000, Perms: procmap.Exec, Name: fmt.Sprint("/lib", i)}, at+10)
		h.exit(pid, tid, at+40)
		if pid != tid {
			h.exit(pid, pid, at+41)
		}
		h.log.until(at + 50)
		live = append(live, ask(h, i))
		h.Expire(at - 10*step)
	}
	if err := h.log.flush(); err != nil {
		t.Fatal(err)
	}
	named := 0
	got, err := Load(space.NewOf(10*lives), log)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range live {
		if again := ask(got, i); again != want {
			t.Fatalf("life %d: the log gives\n%slive gave\n%s", i, again, want)
		}
		named += strings.Count(want, fmt.Sprint("/lib", i, "\n"))
	}
	if named != 2*lives {
		t.Errorf("%d names of %d", named, 2*lives)
	}
}

// TestPlayer plays a log bit by bit.
func TestPlayer(t *testing.T) {
	text := logHead + "boot\nfork 1.000000000 1 2\nuntil 2.000000000\nfork 3.000000000 1 3\nuntil 4.000000000\nfork 5.000000000 1 4\n"
	p, err := NewPlayer(space.New(), strings.NewReader(text))
	if err != nil || p.Clock != "boot" {
		t.Fatal(p, err)
	}
	for _, c := range []struct {
		t    tracefs.Time
		want string
	}{{0, "0 0 0"}, {15e8, "1 0 0"}, {2e9, "1 0 0"}, {2e9 + 1, "1 1 0"}, {4e9, "1 1 0"}, {9e9, "1 1 1"}, {space.Forever, "1 1 1"}} {
		if err := p.To(c.t); err != nil {
			t.Fatal(err)
		}
		th := p.History.Threads
		if got := fmt.Sprint(th.Live(2), th.Live(3), th.Live(4)); got != c.want {
			t.Errorf("up to %d: %s, want %s", c.t, got, c.want)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestLogWriteError: the error of writing comes out, once and for all.
func TestLogWriteError(t *testing.T) {
	h, _ := logged()
	h.log.w = fullDisk{}
	for range 2 {
		h.sure(1)
		if err := h.log.flush(); !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
	}
	h.log.w = io.Discard
	if err := h.log.flush(); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
}

// FuzzLoad: no text makes a history that contradicts itself, and what is read
// can be written and read again.
func FuzzLoad(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 1))
	h, log := logged()
	for now := range tracefs.Time(60) {
		happen(h, rnd, 10+now)
	}
	h.log.until(80)
	if err := h.log.flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(log.Bytes())
	f.Add([]byte(logHead + "mono\nread 1.000000000 0.000000000 1 5 all:1 x\n 1000-2000 r-xp 0 0:0 0 0 file - /a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := Load(space.New(), bytes.NewReader(text))
		if h == nil {
			if err == nil {
				t.Error("no history and no error")
			}
			return
		}
		h.Spaces.Snapshot().Each(func(s *space.Space) bool {
			checkVersions(t, s)
			return true
		})
	})
}

// checkVersions checks that the versions of a space and their mappings are in
// order and do not overlap.
func checkVersions(t *testing.T, s *space.Space) {
	t.Helper()
	versions := s.Versions()
	for i := range versions {
		v := &versions[i]
		if v.From >= v.To || i > 0 && versions[i-1].To > v.From {
			t.Fatalf("process %d: versions overlap: %+v", s.PID, versions)
		}
		end := uint64(0)
		for m := range v.Mappings.All() {
			if m.Start >= m.End || end > m.Start {
				t.Fatalf("process %d: mappings overlap at %#x", s.PID, m.Start)
			}
			end = m.End
		}
	}
}
