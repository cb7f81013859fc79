package report

import (
	"ustack/render/brief"
)

// Options are how a report is written.
type Options struct {
	// Brief has it fit onto a screen, and leaves out what does not.
	Brief bool
}

// The parts of a brief report by how important they are: what is left out first comes
// last.
const (
	_ = iota // the answer
	rankLoss
	rankRows
	rankUnknown
	rankNotes
)

// seeMore is the last line of a brief report.
const seeMore = "More rows and notes with -v; --json has all of it."

// brief returns the report in as many lines as a screen has.
func (t *text) brief(room int) string {
	blocked, events, unknown := t.sections()
	first := blocked
	if len(blocked) == 0 {
		first, events = events, after(events)
	}
	var s brief.Screen
	s.Add(brief.Block{Lines: t.lines(t.amounts)})
	s.Add(brief.Block{Lines: t.lines(func() { t.most("Most", first) }), Apart: true})
	s.Add(brief.Block{Lines: t.lines(func() { t.list(after(blocked)) }), Rank: rankRows, Apart: true, Title: "Other waits"})
	s.Add(brief.Block{Lines: t.lines(func() { t.list(events) }), Rank: rankRows, Apart: true, Title: "Waits for events"})
	s.Add(brief.Block{Lines: t.lines(func() { t.unknown(unknown) }), Rank: rankUnknown, Apart: true})
	s.Add(brief.Block{Lines: t.lines(t.loss), Rank: rankLoss})
	if t.r.Switches > 0 {
		for _, n := range t.r.Notes {
			s.Note(rankNotes, false, "Note: "+n+".")
		}
	}
	return s.Text(room, t.r.RowCount > len(t.r.Rows), seeMore)
}

// lines returns what is written, by lines, without empty lines around it.
func (t *text) lines(write func()) []string {
	t.b.Reset()
	write()
	lines := brief.Split(t.b.String())
	t.b.Reset()
	return lines
}
