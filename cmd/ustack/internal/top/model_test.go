package top

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/tracefs"
)

const second = tracefs.Time(1e9)

// screenOf is a model with the snapshots given, a second apart.
func screenOf(t *testing.T, look Look, snaps ...*Snapshot) *model {
	t.Helper()
	m := newModel(look, new(wishes), newMailbox())
	for i, s := range snaps {
		s.At = second * tracefs.Time(i+1)
		if _, next := m.Update(s); next == nil {
			t.Fatal("no snapshot is waited for any more")
		}
	}
	return m
}

// snapshot has a row for each time in seconds.
func snapshotOf(seconds ...float64) *Snapshot {
	s := &Snapshot{By: futex.ByObject, Events: 7, Lost: "0"}
	for i, v := range seconds {
		s.Rows = append(s.Rows, Row{
			Key: Key(fmt.Sprint("key", i)), Lock: true, Time: tracefs.Time(v * 1e9), Waits: int64(100 * v), Open: int64(i), Threads: 3 * i,
			Row: report.Row{Kind: "mutex", Where: fmt.Sprint("lock", i), Process: "prog", Code: fmt.Sprint("wait", i), Owner: fmt.Sprint("owner-", i)},
		})
	}
	return s
}

// press presses keys, each a word of tea.KeyPressMsg.
func press(m *model, keys ...string) (last tea.Cmd) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "end": tea.KeyEnd, "home": tea.KeyHome,
		"pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace}
	for _, key := range keys {
		msg := tea.KeyPressMsg{Code: named[key]}
		switch {
		case key == "ctrl+c":
			msg.Code, msg.Mod = 'c', tea.ModCtrl
		case msg.Code == 0:
			r, _ := utf8.DecodeRuneInString(key)
			msg.Code, msg.Text = r, key
		}
		_, last = m.Update(msg)
	}
	return last
}

// shownRows are the keys of the rows, in order.
func shownRows(m *model) string {
	var keys []string
	for _, row := range m.rows() {
		keys = append(keys, strings.TrimPrefix(string(row.Key), "key"))
	}
	return strings.Join(keys, " ")
}

// TestKeysFit: a terminal of 80 columns shows the page of keys whole.
func TestKeysFit(t *testing.T) {
	const narrow = 80
	for _, line := range keys() {
		if len(line) > narrow {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// TestSort: rows are in the order of what they are waited for a second, and of what the key
// asks for.
func TestSort(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(5, 1, 2), snapshotOf(5.1, 1.5, 2.2))
	m.snap.Rows[2].Max = second
	want := map[ordering]string{byRate: "1 2 0", byFreq: "1 2 0", byTotal: "0 2 1", byMax: "2 0 1", byThreads: "2 1 0"}
	for range orders {
		if got := shownRows(m); got != want[m.sort] {
			t.Errorf("by %s: %s, want %s", m.sort, got, want[m.sort])
		}
		press(m, "s")
	}
	if m.sort != byRate {
		t.Errorf("by %s after all", m.sort)
	}
	text := ansi.Strip(m.draw())
	for _, want := range []string{"800 ms waited a second for 3 locks, 3 threads waiting; 7 events", "500 ms      50     1/3", "mutex wait1 lock1", "owner-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestRates: snapshots that come sooner change no rate, and what was not there was not waited
// for.
func TestRates(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(1), snapshotOf(2, 3))
	soon := snapshotOf(9, 9)
	soon.At = m.at + second/10
	m.Update(soon)
	if a, b := m.trends["key0"].rate, m.trends["key1"].rate; a != 1 || b != 3 {
		t.Errorf("%v, %v", a, b)
	}
	less := snapshotOf(1, 4)
	less.At = 3 * second
	m.Update(less)
	if a, b := m.trends["key0"].rate, m.trends["key1"].rate; a != 0 || b != 1 {
		t.Errorf("after less: %v, %v", a, b)
	}
	other := snapshotOf(1)
	other.At, other.By = 4*second, futex.BySite
	m.Update(other)
	if len(m.snap.Rows) != 2 {
		t.Error("a snapshot of other rows was taken")
	}
	for i := range 2 * maxRates {
		s := snapshotOf(float64(10 + i))
		s.At = tracefs.Time(4+i) * second
		m.Update(s)
	}
	if n := len(m.trends["key0"].rates); n != maxRates || len(m.trends) != 1 {
		t.Errorf("%d rates, %d rows", n, len(m.trends))
	}
}

// TestFilter: what is typed selects rows, and Esc shows all again.
func TestFilter(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(1, 2, 3))
	m.snap.Rows[0].Lock = false
	if got := shownRows(m); got != "2 1" {
		t.Errorf("locks: %s", got)
	}
	press(m, "a")
	if got := shownRows(m); got != "2 1 0" {
		t.Errorf("all: %s", got)
	}
	press(m, "/", "O", "W", "N", "E", "R", "-", "1", "x", "backspace")
	if got := shownRows(m); got != "1" {
		t.Errorf("while typing: %s", got)
	}
	if !strings.Contains(m.draw(), "/OWNER-1_") {
		t.Errorf("\n%s", m.draw())
	}
	if press(m, "q", "enter"); m.filter != "OWNER-1q" || m.typing {
		t.Errorf("%q", m.filter)
	}
	if got := ansi.Strip(m.draw()); !strings.Contains(got, `no row has "OWNER-1q"`) {
		t.Error(got)
	}
	press(m, "esc")
	if got := shownRows(m); got != "2 1 0" {
		t.Errorf("after Esc: %s", got)
	}
	press(m, "/", "\033")
	if _, cmd := m.Update(tea.PasteMsg{Content: "\033[2J" + strings.Repeat("x", 2*maxFilter)}); cmd != nil || strings.ContainsRune(m.filter, '\033') {
		t.Errorf("%q", m.filter)
	}
}

// TestOpen: the selected lock is opened, its text comes with a snapshot and scrolls, and the
// selection stays with its row.
func TestOpen(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(3, 2, 1))
	press(m, "down", "enter")
	if want := (view{By: futex.ByObject, Open: "key1"}); m.wishes.want() != want || !strings.Contains(m.draw(), "reading it") {
		t.Errorf("wished for %+v", m.wishes.want())
	}
	s := snapshotOf(1, 2, 3)
	s.At, s.Opened = 2*second, "key1"
	for i := range 100 {
		s.Detail = append(s.Detail, fmt.Sprintf("line %d.", i))
	}
	m.Update(s)
	press(m, "pgdown", "down", "up", "down")
	if text := m.draw(); strings.Contains(text, "line 19.") || !strings.Contains(text, "line 20.") || !strings.Contains(text, "line 38.") || strings.Contains(text, "line 39.") {
		t.Errorf("\n%s", text)
	}
	if press(m, "end"); !strings.Contains(m.draw(), "line 99.") || m.scroll != 100-m.room() {
		t.Errorf("from %d", m.scroll)
	}
	if press(m, "q"); m.wishes.want().Open != "" || m.selected != "key1" || m.rows()[m.line].Key != "key1" {
		t.Errorf("back on %q in line %d", m.selected, m.line)
	}
	press(m, "end")
	if press(m, "home", "up"); m.line != 0 {
		t.Errorf("in line %d", m.line)
	}
}

// TestOrders: keys that the analysis has something to do for.
func TestOrders(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(1))
	press(m, "m", "w", "h")
	if got := m.wishes.take(); !slices.Equal(got, []order{{what: orderMark}, {what: orderText}, {what: orderHTML}}) {
		t.Errorf("%v", got)
	}
	press(m, "l", "1", "x", "2", "0", "backspace", "9", "9", "9", "s", "enter") // no more than four digits
	press(m, "l", "enter")
	press(m, "l", "7", "esc")
	if got := m.wishes.take(); !slices.Equal(got, []order{{what: orderKeep, keep: 1299 * time.Second}}) || m.asking {
		t.Errorf("%v", got)
	}
	press(m, "l", "3", "h") // who types on saves, too
	if got := m.wishes.take(); !slices.Equal(got, []order{{what: orderKeep, keep: 3 * time.Second}, {what: orderHTML}}) || m.asking {
		t.Errorf("%v", got)
	}
	for range 100 {
		press(m, "w")
	}
	for _, key := range []string{"q", "ctrl+c"} {
		cmd := press(m, key)
		if cmd == nil {
			t.Fatalf("%s does not end it", key)
		}
		if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%s does not end it", key)
		}
		if got := m.wishes.take(); got[len(got)-1].what != orderQuit || len(got) > maxOrders+1 {
			t.Errorf("%s: %v", key, got)
		}
	}
	by := []futex.By{m.by}
	for range 3 {
		press(m, "b")
		if by = append(by, m.by); m.wishes.want().By != m.by || m.snap != nil {
			t.Errorf("%+v", m.wishes.want())
		}
	}
	if !slices.Equal(by, []futex.By{futex.ByObject, futex.ByLock, futex.BySite, futex.ByObject}) {
		t.Errorf("%v", by)
	}
}

// TestPause: rows stay as they are, and messages and trends go on.
func TestPause(t *testing.T) {
	m := screenOf(t, Look{}, snapshotOf(1), snapshotOf(2))
	press(m, "p")
	s := snapshotOf(7, 7)
	s.At, s.Said = 3*second, "saved it"
	m.Update(s)
	text := ansi.Strip(m.draw())
	if len(m.snap.Rows) != 1 || m.snap.Rows[0].Time != 2*second || !strings.Contains(text, "saved it") || !strings.Contains(text, "PAUSED") || m.trends["key0"].rate != 5 {
		t.Errorf("%+v\n%s", m.snap, text)
	}
}

// sgr are the sequences that a screen may have.
var sgr = regexp.MustCompile(`\033\[[0-9]*m`)

// checkDrawn checks that a screen fits the terminal and does nothing to it.
func checkDrawn(t *testing.T, m *model) {
	t.Helper()
	text := m.draw()
	lines := strings.Split(text, "\n")
	if len(lines) > max(m.height, 1) || m.height >= linesAround+1 && len(lines) != m.height {
		t.Errorf("%dx%d: %d lines", m.width, m.height, len(lines))
	}
	for _, line := range lines {
		bare := sgr.ReplaceAllString(line, "")
		if ansi.StringWidth(bare) > max(m.width, 1) {
			t.Errorf("%dx%d: %d columns: %q", m.width, m.height, ansi.StringWidth(bare), bare)
		}
		for _, r := range bare {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e || m.look.ASCII && r > '~' {
				t.Fatalf("%q on the terminal: %q", r, bare)
			}
		}
		if !m.look.Color && strings.Contains(line, string(dim)) {
			t.Errorf("a color: %q", line)
		}
	}
}

// TestDraw: at all sizes and looks, with names that a stranger has chosen, the screen fits
// and nothing but what it looks like is a control sequence.
func TestDraw(t *testing.T) {
	const evil = "\033[2J\r\n\x07\u009b31m\u202e日本語é\xff\t'%s"
	hostile := func() *Snapshot {
		s := snapshotOf(1, 2, 3, 4)
		for i := range s.Rows {
			s.Rows[i].Kind, s.Rows[i].Where, s.Rows[i].Code, s.Rows[i].Owner, s.Rows[i].Waker = evil, evil, evil+"code", evil, evil
			s.Rows[i].Key += evil
		}
		s.Said, s.Lost, s.More, s.Marked = evil, "at least 5", 12, 1
		s.Detail, s.Opened = []string{evil, strings.Repeat(evil, 20)}, Key("key1"+evil)
		return s
	}
	for _, look := range []Look{{}, {ASCII: true}, {Color: true}, {true, true}} {
		m := screenOf(t, look, hostile(), hostile())
		for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {1, 1}, {0, 0}, {7, 3}, {80, 5}, {111, 24}} {
			m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			for _, keys := range [][]string{{}, {"/", "x"}, {"esc"}, {"end"}, {"enter"}, {"?"}, {"x"}, {"esc"}, {"a"}} {
				press(m, keys...)
				checkDrawn(t, m)
			}
			m.opened, m.text = "k", []string{evil, strings.Repeat(evil, 20)}
			checkDrawn(t, m)
			m.opened, m.text = "", nil
		}
		checkDrawn(t, newModel(look, new(wishes), newMailbox()))
	}
}

// TestSpark: bars are parts of the largest one, in ASCII where there is nothing else.
func TestSpark(t *testing.T) {
	p := pen{}
	if got := p.spark([]float64{9, 0, 1, 2, 4, 8}, 5); got != " ▁▂▄█" {
		t.Errorf("%q", got)
	}
	if got := p.spark([]float64{0, 0}, 4); got != "    " {
		t.Errorf("%q", got)
	}
	p.look.ASCII = true
	if got := p.spark([]float64{1, 8}, 3); got != " .%" {
		t.Errorf("%q", got)
	}
	if got := p.printable("2.10 ms ▁▄ █ 67.1 µs é"); got != "2.10 ms .= % 67.1 us ?" {
		t.Errorf("%q", got)
	}
}

// TestWrap: nothing of a line gets lost, and lines are no longer than the terminal.
func TestWrap(t *testing.T) {
	p := pen{width: 30}
	got := p.wrap("  waits at  alpha < beta_function < gamma_function < " + strings.Repeat("x", 50) + " end")
	want := []string{"  waits at  alpha < ", "          beta_function < ", "          gamma_function < ", "          " + strings.Repeat("x", 20),
		"          " + strings.Repeat("x", 20), "          " + strings.Repeat("x", 10) + " end"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestMailbox: the newest snapshot is there, whether it is taken or not.
func TestMailbox(t *testing.T) {
	box := newMailbox()
	for i := range 10 {
		box.post(&Snapshot{Events: int64(i)})
	}
	if s := <-box; s.Events != 9 || len(box) != 0 {
		t.Errorf("%d", s.Events)
	}
}

// TestLook: by the variables that terminals have.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want Look
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, Look{Color: true}},
		{map[string]string{"LANG": "C.utf8", "NO_COLOR": "1"}, Look{}},
		{map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C"}, Look{ASCII: true, Color: true}},
		{nil, Look{ASCII: true, Color: true}},
	} {
		if got := lookOf(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %+v", c.env, got)
		}
	}
}
