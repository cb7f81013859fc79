//go:build !device

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// analyse reads the text of a trace, and keeps the calls.
func analyse(t *testing.T, text string) *futex.Analysis {
	t.Helper()
	return analyseFor(t, futex.Options{Calls: true}, text)
}

// analyseFor reads the text of a trace with other options.
func analyseFor(t *testing.T, opt futex.Options, text string) *futex.Analysis {
	t.Helper()
	trace, err := input.OpenAll([]string{"-"}, strings.NewReader(text), input.Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	a := futex.New(opt)
	res := resolve.New(resolve.Options{Stitch: true, Sources: 1, Hold: resolve.Limits{Lines: 1 << 16, Bytes: 1 << 20, Time: 2e9}})
	for err == nil {
		b := new(tracefs.Batch)
		if err = trace.Next(b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		res.Add(b)
		if err == io.EOF {
			res.End()
		}
		for h := res.Next(); h != nil; h = res.Next() {
			if err := a.Batch(h); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a
}

// call is a line of a trace: who, on which CPU, when in microseconds.
func call(comm string, tid, cpu, us int, body string) string {
	comm = strings.Repeat(" ", 16-len(comm)) + comm // as many bytes
	return fmt.Sprintf("%s-%-7d (%7d) [%03d] ..... %5d.%06d: %s\n", comm, tid, 7, cpu, us/1_000_000, us%1_000_000, body)
}

func wait(addr int) string {
	return fmt.Sprintf("sys_futex(uaddr: %#x, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)", addr)
}

func wake(addr int) string {
	return fmt.Sprintf("sys_futex(uaddr: %#x, op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0)", addr)
}

const woken = "sys_futex -> 0x0"

// scene has a wait of each kind.
func scene() string {
	return call("early", 9, 0, 1_000_000, "sys_futex -> 0xffffffffffffff92") +
		call("perhaps", 10, 0, 1_000_010, woken) +
		call("first", 11, 0, 1_000_100, wait(0x1000)) +
		call("second", 12, 0, 1_000_110, wait(0x1000)) +
		call("owner", 13, 1, 1_000_300, wake(0x1000)) +
		call("owner", 13, 1, 1_000_301, "sys_futex -> 0x1") +
		call("first", 11, 0, 1_000_310, woken) +
		call("first", 11, 0, 1_000_320, wake(0x1000)) +
		call("first", 11, 0, 1_000_321, "sys_futex -> 0x1") +
		call("second", 12, 0, 1_000_330, woken) +
		call("second", 12, 0, 1_000_340, wait(0x2000)) +
		call("second", 12, 0, 1_000_341, "sys_futex -> 0xfffffffffffffff5") +
		call("first", 11, 0, 1_000_400, wait(0x2000)) +
		"CPU:1 [LOST 12 EVENTS]\n" +
		call("first", 11, 0, 1_000_500, wait(0x1000)) + // no return
		call("first", 11, 0, 1_000_600, woken) +
		call("second", 12, 1, 1_000_700, wait(0x2000)) + // no end
		call("owner", 13, 1, 1_000_900, "sys_futex(uaddr: 0x3000, op: 0x80, val: 0, utime: 0x7f0, uaddr2: 0, val3: 0)") +
		call("owner", 13, 1, 1_001_000, "sys_futex -> 0xffffffffffffff92")
}

// describeBars says what the bars of a time line are.
func describeBars(d *timeLines, t *table) []string {
	var out []string
	for _, line := range d.Lines {
		for _, b := range line.Bars {
			lock := "?"
			if b[2] >= 0 {
				lock = t.Rows[b[2]].Name
			}
			s := fmt.Sprintf("%s %d+%d %s %s flags %d", line.Name, b[0]/1000, b[1]/1000, lock, futex.Result(b[3]), b[4])
			if len(b) > 6 {
				s += fmt.Sprintf(" by %s of line %d at %d", d.Names[b[6]], b[7], b[8]/1000)
			}
			out = append(out, s)
		}
	}
	return out
}

func TestTimeLine(t *testing.T) {
	a := analyse(t, scene())
	r := a.Report(futex.View{})
	table := newTable(r)
	d, err := waitLines(a, r, futex.View{}, table, defaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"second-12 110+220 0x1000 woken flags 4 by first-11 of line 1 at 320",
		"second-12 700+300 0x2000 open flags 8",
		"first-11 100+210 0x1000 woken flags 0 by owner-13 of line 2 at 300",
		"first-11 400+0 0x2000 no return flags 0",
		"first-11 500+100 0x1000 woken flags 0",
		"owner-13 900+100 0x3000 timed out flags 0",
		"perhaps-10 0+10 ? woken flags 2",
		"early-9 0+0 ? timed out flags 2",
	}
	if got := describeBars(d, table); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.Awake != 1 || len(d.Lost) != 1 || d.Lost[0][4] != 12 || d.MoreThreads+int(d.MoreWaits)+int(d.MoreLost) != 0 {
		t.Errorf("besides there is %+v", d)
	}
}

// TestTimeLineLimits: whatever does not fit, no wait and no time is dropped
// silently, and what is drawn is the longest.
func TestTimeLineLimits(t *testing.T) {
	var b strings.Builder
	const threads, rounds = 20, 30
	var all, allTime int64
	for round := range rounds {
		for i := range threads {
			us := 1_000_000 + 100_000*round + 100*i
			length := 1 + (7*i+13*round)%1000 + 3*i
			addr := 0x1000
			if i%4 == 3 {
				addr = 0x2000 // a flag, as its value is none of a lock
			}
			entry := wait(addr)
			if addr == 0x2000 {
				entry = strings.Replace(entry, "val: 2", "val: 7", 1)
			}
			b.WriteString(call("t", 100+i, i%4, us, entry))
			b.WriteString(call("t", 100+i, i%4, us+length, woken))
			all++
			allTime += 1000 * int64(length)
		}
	}
	text := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	slices.SortStableFunc(text, func(x, y string) int { return strings.Compare(x[44:58], y[44:58]) })
	a := analyse(t, strings.Join(text, "\n")+"\n")
	r := a.Report(futex.View{})
	for _, lim := range []limits{
		defaultLimits,
		{threads: 100, waits: [2]int{50, 20}, slots: 10, seen: 100},
		{threads: 5, waits: [2]int{1000, 1000}, slots: 10, seen: 100},
		{threads: 5, waits: [2]int{7, 3}, slots: 3, seen: 12},
		{threads: 0, slots: 1, seen: 0},
	} {
		d, err := waitLines(a, r, futex.View{}, newTable(r), lim)
		if err != nil {
			t.Fatal(err)
		}
		waits, time, drawn := d.MoreWaits, int64(d.MoreTime), [2]int{}
		shortest, longestRest := int64(1<<62), int64(0)
		for _, line := range d.Lines {
			lineWaits := int64(len(line.Bars))
			for _, b := range line.Bars {
				lock := 1
				if r.Locks[0].Address == 0x1000 && b[2] == 0 {
					lock = 0
					shortest = min(shortest, b[1])
				}
				drawn[lock]++
				time += b[1]
			}
			for _, s := range line.Rest {
				lineWaits += s[2]
				time += s[3]
				if s[1] == 0 {
					longestRest = max(longestRest, s[3]/s[2])
				}
				if s[0] < 0 || s[0] >= int64(lim.slots) {
					t.Errorf("%+v: slot %d", lim, s[0])
				}
			}
			if lineWaits != line.Waits {
				t.Errorf("%+v: %d waits of %s, want %d", lim, lineWaits, line.Name, line.Waits)
			}
			waits += lineWaits
		}
		if waits != all || time != allTime {
			t.Errorf("%+v: %d waits, %d ns; want %d, %d ns", lim, waits, time, all, allTime)
		}
		if len(d.Lines) > lim.threads || drawn[0] > lim.waits[0] || drawn[1] > lim.waits[1] {
			t.Errorf("%+v: %d lines, %v bars", lim, len(d.Lines), drawn)
		}
		if drawn[0] > 0 && longestRest > shortest {
			t.Errorf("%+v: a bar is %d ns long, what is not drawn %d in the mean", lim, shortest, longestRest)
		}
	}
}

// TestTableRows: locks beyond the bound are a row together, and nothing is lost.
func TestTableRows(t *testing.T) {
	var list []*futex.Lock
	var waits int64
	for i := range maxRows + 50 {
		l := &futex.Lock{Rank: i + 1, Address: uint64(i), Waits: int64(i % 7), Slept: 1}
		l.Results[futex.Woken] = l.Waits
		l.Time, l.Low, l.High = 10, 5, 20
		waits += l.Waits
		list = append(list, l)
	}
	other := &futex.Lock{Waits: 5}
	table := newTable(&futex.Report{Locks: list, OtherLocks: other, Signals: list[:1]})
	if len(table.Rows) != maxRows+3 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	rest := table.Rows[maxRows]
	if !rest.Many || rest.Time != [3]tracefs.Time{500, 250, 1000} || !strings.HasPrefix(rest.Name, "50 more") || table.row(list[maxRows+7]) != maxRows+1 {
		t.Errorf("the rest is %+v", rest)
	}
	for _, row := range table.Rows[:maxRows+1] {
		waits -= row.Waits
	}
	if waits != 0 {
		t.Errorf("%d waits are missing", waits)
	}
	if r := table.Rows[maxRows+1]; r.Waits != 5 || !r.Many || table.row(other) != 0 || table.Rows[maxRows+2].Lock {
		t.Errorf("the others are %+v", r)
	}
}

func TestShort(t *testing.T) {
	for _, name := range []string{"", "a", strings.Repeat("ä", maxName), strings.Repeat("\xff", 1000), "\xe2" + strings.Repeat("€", 400)} {
		got := short(name)
		if len(got) > maxName+10 || got != strings.ToValidUTF8(got, "?") || len(name) <= maxName && got != name {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// TestWords: names and stacks are there once, and end where there are too many.
func TestWords(t *testing.T) {
	w := newWords()
	stack := func(i int) *futex.Stack {
		return &futex.Stack{Frames: []futex.Frame{{File: &filemap.File{Path: fmt.Sprint(i, strings.Repeat("x", 2*maxName))}}}}
	}
	first := stack(0)
	a, b, c := w.stack(first, ""), w.stack(first, ""), w.stack(nil, "")
	if a != b || a == c || len(w.stacks) != 2 {
		t.Errorf("stacks %d %d %d of %d", a, b, c, len(w.stacks))
	}
	size := 0
	for i := range 2 * maxWords / maxName {
		w.stack(stack(i+1), "")
	}
	for _, name := range w.names {
		size += len(name)
	}
	last := w.stacks[w.stack(stack(-1), "")]
	if size > maxWords+4*maxName || len(last) != 1 || !strings.Contains(w.names[last[0]], tooManyStacks) || w.stack(first, "") != a {
		t.Errorf("%d bytes of names; the last stack is %v", size, last)
	}
}

var dataScript = regexp.MustCompile(`(?s)<script type="application/json" id="data-(\w+)">(.*?)</script>`)

// TestHTMLHostile: what a trace says is in the data only, cannot end it, and the
// data are what they were.
func TestHTMLHostile(t *testing.T) {
	evil := `</script><b>x"` // 15 characters, as many as a name has
	text := call(evil, 11, 0, 1_000_100, wait(0x1000)) + call(evil, 11, 0, 1_000_300, woken)
	text = strings.ReplaceAll(text, "<b>", "\x07\xff\x1b") // nor would these end well
	a := analyse(t, text)
	var out, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&out, &again} {
		if err := HTML(w, a, a.Report(futex.View{}), futex.View{}, false); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same page again is another one")
	}
	page := out.String()
	if n := strings.Count(page, "</script>"); n != 5 {
		t.Errorf("%d scripts end, want 5", n)
	}
	for _, c := range []byte{0x07, 0xff, 0x1b} {
		if bytes.IndexByte(out.Bytes(), c) >= 0 {
			t.Errorf("the page has the byte %#x", c)
		}
	}
	var lines timeLines
	for _, m := range dataScript.FindAllStringSubmatch(page, -1) {
		var any map[string]any
		if err := json.Unmarshal([]byte(m[2]), &any); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		if m[1] == "waits" {
			if err := json.Unmarshal([]byte(m[2]), &lines); err != nil {
				t.Error(err)
			}
		}
	}
	if len(lines.Lines) != 1 || !strings.HasPrefix(lines.Lines[0].Name, "</script>") {
		t.Errorf("the lines are %+v", lines.Lines)
	}
}
