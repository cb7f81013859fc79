package top

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/render/outfile"
	"ustack/tracefs"
)

// saver writes files beside the goroutine of the analysis.
type saver struct {
	dir     string
	now     func() time.Time
	under   bool // a file is being written
	results chan result
}

// result is how the writing of a file ended.
type result struct {
	name string
	err  error
}

// save writes a file. It returns false if another one is being written.
func (s *saver) save(ending string, write func(io.Writer) error) bool {
	if s.under {
		return false
	}
	s.under, s.results = true, make(chan result, 1)
	name := filepath.Join(s.dir, "ustack-top-"+s.now().Format("20060102-150405.000"))
	go func() {
		name, err := writeFile(name, ending, write)
		s.results <- result{name, err}
	}()
	return true
}

// ended returns the result of a file that has been written.
func (s *saver) ended() (result, bool) {
	if !s.under {
		return result{}, false
	}
	select {
	case r := <-s.results:
		s.under = false
		return r, true
	default:
		return result{}, false
	}
}

// wait waits for a file that is being written. ended returns its result.
func (s *saver) wait() {
	if s.under {
		r := <-s.results
		s.results <- r
	}
}

// writeFile writes a new file that its user alone can read, and returns its name. One that is
// not whole is removed.
func writeFile(base, ending string, write func(io.Writer) error) (name string, err error) {
	file, err := create(base, ending)
	if err != nil {
		return "", fmt.Errorf("creating the report: %w", err)
	}
	err = write(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the error is of writing
		return "", fmt.Errorf("writing %s: %w", file.Name(), err)
	}
	return file.Name(), nil
}

// create creates a file with a number in its name if others have the first names: more than
// one can be saved in the time that names tell apart.
func create(base, ending string) (*os.File, error) {
	const most = 1000
	name := base + ending
	for n := 2; ; n++ {
		file, err := outfile.Next(name)
		if n > most || !errors.Is(err, fs.ErrExist) {
			return file, err
		}
		name = fmt.Sprintf("%s-%d%s", base, n, ending)
	}
}

// reportSaved says what has been saved.
func (s *sink) reportSaved() {
	switch r, ok := s.saver.ended(); {
	case !ok:
	case r.err != nil:
		s.say("%v", r.err)
	default:
		s.say("saved %s", r.name)
	}
}

// reportTop is how many rows the sections of a saved report have.
const reportTop = 20

// saveText saves the report since the mark, of the last part, or of all.
func (s *sink) saveText(at tracefs.Time) {
	a, since := s.Analysis(), "the beginning"
	if w := s.windows.saved(); w.a != nil {
		a, since = w.a, ago(at-w.since)
	}
	s.name(a)
	r := a.Interim(futex.View{By: s.wishes.want().By, Sort: "total", Top: reportTop})
	var text bytes.Buffer // the analysis goes on while it is written
	fmt.Fprintf(&text, "ustack top: since %s\n\n", since)
	if err := report.Text(&text, r, report.Options{Top: reportTop}); err != nil {
		s.say("%v", err)
		return
	}
	s.saveAs(".txt", func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}

// saveHTML saves each wait since the mark, or of the last part. The analysis of them ends: its
// report is made, and the page written, beside this goroutine.
func (s *sink) saveHTML(at tracefs.Time) {
	if s.saver.under {
		s.say("one file at a time: another one is being written")
		return
	}
	switch w := s.windows.saved(); {
	case w.a == nil:
		s.say("m or l first: a page has each wait since a mark, or of the last seconds")
		return
	case w.a.Calls() == 0:
		s.say("nothing to save yet: no call since what is kept began %s", ago(at-w.since))
		return
	}
	w := s.windows.take()
	s.name(w.a)
	v := futex.View{By: futex.ByObject, Sort: "total"}
	w.a.Until(at)
	s.saveAs(".html", func(out io.Writer) error {
		defer w.a.DropCalls()
		return report.HTML(out, w.a, w.a.Report(v), v, false)
	})
}

func (s *sink) saveAs(ending string, write func(io.Writer) error) {
	if !s.saver.save(ending, write) {
		s.say("one file at a time: another one is being written")
	}
}

// ago says how long ago something was.
func ago(d tracefs.Time) string {
	return time.Duration(d).Round(100*time.Millisecond).String() + " ago"
}
