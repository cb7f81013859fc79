package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// linesAround is how many lines are not for rows: two at the top, the heads of the columns,
// and two at the bottom.
const linesAround = 5

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

// draw returns as many lines as the terminal has, none longer than it is wide. All texts
// go through pen.line.
func (m *model) draw() string {
	p := pen{look: m.look, width: m.width}
	lines := []string{p.line(m.title(), bold), p.line(m.state(), plain)}
	room := m.room()
	var body []string
	switch {
	case m.help:
		lines, body = append(lines, p.line("Keys", reverse)), p.lines(keys(), 0)
	case m.opened != "":
		lines, body = append(lines, p.line("Lock", reverse)), p.lines(m.lockText(), m.scroll)
	default:
		lines, body = append(lines, p.line(p.heads(m.by), reverse)), m.table(&p, room)
	}
	for i := range room {
		if i < len(body) {
			lines = append(lines, body[i])
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, p.line(m.message(), plain), p.line(m.hints(), dim))
	return strings.Join(lines[:min(len(lines), max(m.height, 1))], "\n")
}

// title sums up.
func (m *model) title() string {
	s := m.snap
	if s == nil {
		return "ustack top: no waits yet"
	}
	var rate float64
	var locks, open int64
	for i := range s.Rows {
		row := &s.Rows[i]
		if t := m.trends[row.Key]; row.Lock && t != nil {
			rate += t.rate
		}
		if row.Lock {
			locks++
			open += row.Open
		}
	}
	lost := ""
	if s.Lost != "0" {
		lost = ", LOST " + s.Lost
	}
	return fmt.Sprintf("ustack top: %s waited a second for %s, %s waiting; %d events%s",
		seconds(rate), phrase.Plural64(locks, "lock"), phrase.Plural64(open, "thread"), s.Events, lost)
}

// state says what is shown.
func (m *model) state() string {
	what := map[futex.By]string{futex.ByObject: "locks", futex.ByLock: "each futex", futex.BySite: "places in the code"}[m.by]
	if m.all {
		what += " and what else threads wait for"
	}
	text := fmt.Sprintf("%s by %s", what, m.sort)
	if m.filter != "" || m.typing {
		text += ", with \"" + m.filter + "\""
	}
	if s := m.snap; s != nil {
		if s.More > 0 {
			text += fmt.Sprintf(", %d more", s.More)
		}
		if s.Marked > 0 {
			text += ", marked " + ago(s.At-s.Marked)
		}
		if s.Keep > 0 {
			text += fmt.Sprintf(", keeps %v", s.Keep)
		}
	}
	if m.frozen {
		text += ", PAUSED"
	}
	return text
}

// table returns the rows that have room, the selected one among them.
func (m *model) table(p *pen, room int) (lines []string) {
	rows := m.rows()
	if len(rows) == 0 {
		return []string{p.line(m.empty(), plain)}
	}
	first := max(m.line-room+1, 0)
	for i, row := range rows[first:min(first+room, len(rows))] {
		style := plain
		if first+i == m.line {
			style = reverse
		}
		lines = append(lines, p.line(p.row(row, m.trends[row.Key]), style))
	}
	return lines
}

// empty says why there is no row.
func (m *model) empty() string {
	switch {
	case m.snap == nil || m.snap.Events == 0:
		return "nothing seen yet: no futex call"
	case m.filter != "":
		return "no row has \"" + m.filter + "\"; Esc shows all"
	case !m.all && len(m.snap.Rows) > 0:
		return "no thread has waited for a lock; a shows what else threads wait for"
	}
	return "no thread has waited yet"
}

// lockText returns the text of the lock that is open, in lines as wide as the terminal.
func (m *model) lockText() (lines []string) {
	if m.text == nil {
		return []string{"reading it ..."}
	}
	p := pen{look: m.look, width: m.width}
	for _, line := range m.text {
		lines = append(lines, p.wrap(line)...)
	}
	return lines
}

// message returns what was said last, or what is being typed.
func (m *model) message() string {
	switch {
	case m.typing:
		return "/" + m.filter + "_  Enter keeps it, Esc clears it"
	case m.asking:
		return "keep the last " + m.digits + "_ seconds  Enter keeps them (0: none), Esc does not"
	case m.snap != nil:
		return m.snap.Said
	}
	return ""
}

// hints are the keys that are of use now.
func (m *model) hints() string {
	if m.opened != "" {
		return "Esc back  Up Down scroll  m mark  l last  w h save  ? keys  ^C quit"
	}
	return "Enter open  s sort  / filter  b rows  a all  m l w h save  ? keys  q quit"
}

// keys is the page of all keys.
func keys() []string {
	return strings.Split(`Up Down PgUp PgDn Home End   select a row (also k j g G)
Enter     open the lock: waiters, owners, stacks, chain; Esc or q goes back
s         sort by waiting a second, waits a second, total, longest, threads
b         a row for each lock, each futex, or each place in the code that waits
a         other futexes than locks, too: condition variables, joins, parking
/         only rows with a text in lock, process, owner or function; Esc: all
p         stop and go on showing what is new; the trace goes on
m         mark: w and h save from here
l         keep the last N seconds from now on, instead of a mark
w         save a report since the mark, of the last seconds, or of all
h         save an HTML page of each wait since the mark, or of the last seconds
q, ^C     quit

WAIT/s    seconds that all threads together have waited in a second
NOW/THR   threads that wait now, of those that have waited
OWNER     who owned the lock most, or after < who released it most or woke its
          waiters most, and the function where`, "\n")
}

// seconds writes a rate of waiting.
func seconds(rate float64) string {
	return phrase.Duration(tracefs.Time(rate*1e9), false)
}
