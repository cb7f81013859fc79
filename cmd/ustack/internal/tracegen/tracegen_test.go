package tracegen

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"regexp"
	"strconv"
	"testing"
)

func generate(t *testing.T, cfg Config) ([]byte, Stats) {
	t.Helper()
	var b bytes.Buffer
	s, err := Write(&b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), s
}

func TestSameSeedSameBytes(t *testing.T) {
	sum := func(cfg Config) [sha256.Size]byte {
		text, _ := generate(t, cfg)
		return sha256.Sum256(text)
	}
	one := sum(Config{Bytes: 1 << 20, Seed: 1})
	if sum(Config{Bytes: 1 << 20, Seed: 1}) != one {
		t.Error("two runs with one seed differ")
	}
	if sum(Config{Bytes: 1 << 20, Seed: 2}) == one {
		t.Error("runs with different seeds do not differ")
	}
}

func TestLength(t *testing.T) {
	for _, n := range []int64{0, 1, 4 << 10, 1 << 20} {
		text, s := generate(t, Config{Bytes: n})
		if got := int64(len(text)); got < n || got > n+1024 || got != s.Bytes {
			t.Errorf("Bytes %d: wrote %d, counted %d", n, got, s.Bytes)
		}
	}
}

func TestLongerTraceBeginsTheSame(t *testing.T) {
	short, _ := generate(t, Config{Bytes: 200 << 10, Seed: 5})
	long, _ := generate(t, Config{Bytes: 400 << 10, Seed: 5})
	if !bytes.HasPrefix(long, short) {
		t.Error("a longer trace does not start with the shorter one")
	}
}

type failing struct{}

var errFull = errors.New("full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriteError(t *testing.T) {
	if _, err := Write(failing{}, Config{Bytes: 1 << 20}); !errors.Is(err, errFull) {
		t.Errorf("got error %v", err)
	}
}

const ptr = `0x[0-9a-f]+`

var (
	contextRE  = regexp.MustCompile(`^(.{16})-(\d+) +\[(00[0-3])\] (\.\.\.\.\.|\.l\.\.\.|d\.\.2\.) +(\d+\.\d{6}): (.*)$`)
	switchRE   = regexp.MustCompile(`^sched_switch: prev_comm=(.{1,15}) prev_pid=(\d+) prev_prio=120 prev_state=(S|R|R\+|I|D|X) ==> next_comm=(.{1,15}) next_pid=(\d+) next_prio=120$`)
	enterRE    = regexp.MustCompile(`^sys_futex\(uaddr: ` + ptr + `, op: (\d|` + ptr + `), val: (\d+|` + ptr + `), utime: (0|` + ptr + `), uaddr2: (0|` + ptr + `), val3: (\d|` + ptr + `)\)$`)
	exitRE     = regexp.MustCompile(`^sys_futex -> (0x[01]|0xffffffffffffff92|0xfffffffffffffff5)$`)
	cookieRE   = regexp.MustCompile(`^cookie=([0-9a-f]+)$`)
	mapRE      = regexp.MustCompile(`^file_map: hash=(0x[1-9a-f][0-9a-f]{0,7}) path=(/.*) build_id=\{(0x[0-9a-f]{1,8},){4}0x[0-9a-f]{1,8}\}$`)
	frameRE    = regexp.MustCompile(`^ =>  <([0-9a-f]{16})> : (0x[0-9a-f]{1,8})$`)
	lostRE     = regexp.MustCompile(`^CPU:([0-3]) \[LOST (\d+) EVENTS\]$`)
	stackStart = "<user stack unwind>"
)

// A census counts lines and their bytes by kind.
type census struct {
	lines, bytes map[string]int
	depth        map[int]int
	special      map[string]int
	fromIdle     int
	hashes       map[string]string
	stats        Stats
}

// take reads a trace line by line and fails the test on what does not parse
// or does not fit together.
func take(t *testing.T, text []byte, lossy bool) census {
	t.Helper()
	c := census{
		lines: map[string]int{}, bytes: map[string]int{}, depth: map[int]int{},
		special: map[string]int{}, hashes: map[string]string{},
	}
	requested := map[string]string{}      // cookie to pid
	using := map[string]map[string]bool{} // identifiers in the last stack of a pid
	tasks := map[string]bool{}
	onCPU := map[string]string{} // pid by CPU
	var stackOf string
	frames := -1 // of the stack under way; -1: none, -2: cookie line is due
	lastTime := 0.0
	c.stats.Bytes = int64(len(text))
	for raw := range bytes.Lines(text) {
		line := string(bytes.TrimSuffix(raw, []byte("\n")))
		c.stats.Lines++
		count := func(kind string) {
			c.lines[kind]++
			c.bytes[kind] += len(raw)
		}
		if frames == -2 {
			m := cookieRE.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("no cookie line in stack: %q", line)
			}
			if by := requested[m[1]]; by != stackOf && !lossy {
				t.Fatalf("stack of %s with cookie %s, which was of %q", stackOf, m[1], by)
			}
			count("cookie line")
			frames = 0
			continue
		}
		if m := frameRE.FindStringSubmatch(line); m != nil {
			if frames < 0 {
				t.Fatalf("frame outside a stack: %q", line)
			}
			if m[2] == "0x0" || m[2] == "0xffffffff" {
				c.special[m[2]]++
			}
			using[stackOf][m[2]] = true
			frames++
			count("frame")
			c.stats.Frames++
			continue
		}
		if frames == 0 {
			t.Fatalf("stack without frames before %q", line)
		}
		if frames > 0 {
			c.depth[frames]++
			frames = -1
		}
		if m := lostRE.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			c.stats.Losses++
			c.stats.Lost += int64(n)
			delete(onCPU, "00"+m[1])
			count("lost")
			continue
		}
		m := contextRE.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line does not parse: %q", line)
		}
		pid, cpu, body := m[2], m[3], m[6]
		tasks[pid] = true
		if now, _ := strconv.ParseFloat(m[5], 64); now < lastTime {
			t.Fatalf("time goes back: %q", line)
		} else {
			lastTime = now
		}
		if by, ok := onCPU[cpu]; ok && by != pid && !(cookieRE.MatchString(body) && m[4] == "d..2.") {
			t.Fatalf("CPU %s runs %s: %q", cpu, by, line)
		}
		switch {
		case body == stackStart:
			stackOf = pid
			using[pid] = map[string]bool{}
			frames = -2
			count("stack")
			c.stats.Stacks++
		case switchRE.MatchString(body):
			m := switchRE.FindStringSubmatch(body)
			if m[2] != pid {
				t.Fatalf("sched_switch of another task: %q", line)
			}
			onCPU[cpu] = m[5]
			if pid == "0" {
				c.fromIdle++
			}
			count("switch")
			c.stats.Events++
		case enterRE.MatchString(body):
			count("enter")
			c.stats.Events++
		case exitRE.MatchString(body):
			count("exit")
			c.stats.Events++
		case cookieRE.MatchString(body):
			cookie := cookieRE.FindStringSubmatch(body)[1]
			if by, ok := requested[cookie]; ok && by != pid && cookie != "0" {
				t.Fatalf("cookie %s of %s and %s", cookie, by, pid)
			}
			requested[cookie] = pid
			count("cookie")
			c.stats.Cookies++
		case mapRE.MatchString(body):
			m := mapRE.FindStringSubmatch(body)
			if !using[pid][m[1]] && !lossy {
				t.Fatalf("announcement not after a stack of the same task: %q", line)
			}
			if old, ok := c.hashes[m[1]]; ok && old != m[2] {
				c.stats.Rebindings++
			}
			c.hashes[m[1]] = m[2]
			count("map")
			c.stats.MappingEvents++
		default:
			t.Fatalf("record does not parse: %q", line)
		}
	}
	if frames > 0 {
		c.depth[frames]++
	}
	return c
}

func TestEveryLineParses(t *testing.T) {
	for _, cfg := range []Config{
		{Bytes: 2 << 20, Seed: 7},
		{Bytes: 2 << 20, Seed: 8, RenewEvery: 50, LostEvery: -1},
		{Bytes: 2 << 20, Seed: 9, LostEvery: 2000},
		{Bytes: 256 << 10, Seed: 10, Processes: 1},
	} {
		text, s := generate(t, cfg)
		lossy := cfg.LostEvery > 0
		got := take(t, text, lossy).stats
		got.Tasks = s.Tasks
		if got != s {
			t.Errorf("%+v:\ncounted %+v\nclaimed %+v", cfg, got, s)
		}
		if lossy != (s.Losses > 0) {
			t.Errorf("%+v: %d losses", cfg, s.Losses)
		}
		if cfg.RenewEvery > 0 && s.Rebindings == 0 {
			t.Errorf("%+v: no identifier bound anew", cfg)
		}
	}
}

func TestFilesAndTasks(t *testing.T) {
	text, s := generate(t, Config{Bytes: 4 << 20, Seed: 1})
	c := take(t, text, false)
	paths := map[string]bool{}
	for _, p := range c.hashes {
		paths[p] = true
	}
	if len(paths) < 30 || s.Tasks < 200 {
		t.Errorf("%d files, %d tasks; want dozens and hundreds", len(paths), s.Tasks)
	}
}

// TestMix holds the shares and lengths of lines against the real capture that
// the package comment describes.
func TestMix(t *testing.T) {
	text, s := generate(t, Config{Bytes: 8 << 20, Seed: 1})
	c := take(t, text, false)
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		t.Logf("%-28s %7.2f, real %7.2f", what, got, want)
		if got < want*(1-tolerance) || got > want*(1+tolerance) {
			t.Errorf("%s: %.2f, want %.2f within %.0f %%", what, got, want, 100*tolerance)
		}
	}
	near("bytes a line", float64(s.Bytes)/float64(s.Lines), 69.43, 0.03)
	near("frames a stack", float64(s.Frames)/float64(s.Stacks), 3.195, 0.03)
	for _, w := range []struct {
		kind         string
		share, bytes float64
	}{
		{"frame", 34.81, 37.0},
		{"cookie", 19.91, 70.9},
		{"stack", 10.90, 71.0},
		{"cookie line", 10.90, 19.9},
		{"switch", 12.46, 167.9},
		{"enter", 5.51, 141.5},
		{"exit", 5.51, 69.2},
	} {
		near("share of "+w.kind, 100*float64(c.lines[w.kind])/float64(s.Lines), w.share, 0.05)
		near("length of "+w.kind, float64(c.bytes[w.kind])/float64(c.lines[w.kind]), w.bytes, 0.05)
	}
	near("share of switches from idle", 100*float64(c.fromIdle)/float64(c.lines["switch"]), 27.1, 0.05)
	near("stacks of one frame", 100*float64(c.depth[1])/float64(s.Stacks), 41.2, 0.05)
	near("stacks of five frames", 100*float64(c.depth[5])/float64(s.Stacks), 42.5, 0.05)
	near("frames at 0x0", 100*float64(c.special["0x0"])/float64(s.Frames), 0.48, 0.3)
	near("frames at 0xffffffff", 100*float64(c.special["0xffffffff"])/float64(s.Frames), 0.08, 0.3)
}

func BenchmarkWrite(b *testing.B) {
	const size = 4 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, err := Write(io.Discard, Config{Bytes: size}); err != nil {
			b.Fatal(err)
		}
	}
}
