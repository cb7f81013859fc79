// Package progress shows in one line what takes long: what a program does, how far it is,
// and how long it will take.
//
// Steps are parts of each other. The line shows the innermost one that has lasted for a
// moment, and is empty when there is none.
package progress

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

const (
	// after is how long a step lasts before it is shown.
	after = 500 * time.Millisecond
	// every is how often the line changes.
	every = 200 * time.Millisecond
	// mostLeft is how much time is said to be left at most.
	mostLeft = 100 * time.Hour
)

// Line is the line. It may be used by several goroutines; a nil Line shows nothing.
//
// Invariant: there is a timer while there are steps, and only then.
type Line struct {
	show func(line string)

	mu    sync.Mutex
	steps []*Step // that have not ended, each a part of the one before
	timer *time.Timer
}

// New returns a Line. show shows a line of ASCII in place of the one before, none if it is
// "". It is not called by two goroutines at once.
func New(show func(line string)) *Line { return &Line{show: show} }

// How returns how many bytes of how many are done; all is 0 if that is unknown. Any
// goroutine may call it.
type How func() (done, all int64)

// Step is something that takes time. A nil Step is not shown.
type Step struct {
	line  *Line
	what  string
	how   How
	began time.Time
}

// Begin notes that a step begins, until its End. how may be nil.
func (l *Line) Begin(what string, how How) *Step {
	if l == nil {
		return nil
	}
	s := &Step{line: l, what: printable(what), how: how, began: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps = append(l.steps, s); l.timer == nil {
		l.timer = time.AfterFunc(after, l.tick)
	}
	return s
}

// End notes that the step has ended, with all that is a part of it.
func (s *Step) End() {
	if s == nil {
		return
	}
	l := s.line
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.steps {
		if other != s {
			continue
		}
		if l.steps = l.steps[:i]; i == 0 {
			l.timer.Stop()
			l.timer = nil
			l.show("")
		}
		return
	}
}

// tick changes the line.
func (l *Line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil { // it has run when it was stopped
		return
	}
	l.show(l.text(time.Now()))
	l.timer.Reset(every)
}

// text returns the line at a time.
func (l *Line) text(now time.Time) string {
	for i := len(l.steps) - 1; i >= 0; i-- {
		if lasted := now.Sub(l.steps[i].began); lasted >= after {
			return l.steps[i].text(lasted)
		}
	}
	return ""
}

// text returns the line of a step that has lasted for a time. What is left is as slow as
// what is done was.
func (s *Step) text(lasted time.Duration) string {
	var done, all int64
	if s.how != nil {
		done, all = s.how()
	}
	switch {
	case all <= 0 && done <= 0:
		return fmt.Sprintf("%s: %s", s.what, seconds(lasted))
	case all <= 0:
		return fmt.Sprintf("%s: %s, %s", s.what, size(done), seconds(lasted))
	case done <= 0:
		return fmt.Sprintf("%s: 0 %% of %s, %s", s.what, size(all), seconds(lasted))
	}
	done = min(done, all)
	part := float64(done) / float64(all)
	left := time.Duration(min(float64(lasted)*(1-part)/part, float64(mostLeft)))
	return fmt.Sprintf("%s: %d %% of %s, %s left", s.what, int(part*100), size(all), seconds(left))
}

// seconds writes a time in whole seconds, rounded up.
func seconds(d time.Duration) string {
	d = (d + time.Second - 1).Truncate(time.Second)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// size writes a number of bytes.
func size(n int64) string {
	const kb, mb = 1000, 1000 * 1000
	switch {
	case n < 10*kb:
		return fmt.Sprintf("%d B", n)
	case n < 10*mb:
		return fmt.Sprintf("%d KB", n/kb)
	}
	return fmt.Sprintf("%d MB", n/mb)
}

// printable returns a text in ASCII without control characters, which has as many columns
// as bytes on a terminal: names of files and servers are in it.
func printable(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}
