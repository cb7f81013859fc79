package maps

import (
	"errors"
	"fmt"
	"io"

	"ustack/filemap/procmap"
	"ustack/render"
)

func (j *Job) reader(filter procmap.Filter) (*procmap.Reader, error) {
	j.ids = procmap.NewIDs(nil)
	return procmap.NewReader(procmap.Options{Source: j.Source, Filter: filter, IDs: j.ids, Stat: true, VDSO: j.Save != ""})
}

// list writes mappings or files.
func (j *Job) list(stdout, stderr io.Writer) error {
	var filter procmap.Filter
	if !j.All {
		filter.Perms = procmap.Exec
	}
	r, err := j.reader(filter)
	if err != nil {
		return err
	}
	out := render.Output(stdout)
	var w render.MapsWriter
	switch {
	case j.Files:
		w = render.NewMapsFiles(out, j.JSON)
	case j.JSON:
		w = render.NewMapsJSON(out)
	default:
		w = render.NewMapsTable(out)
	}
	err = j.walk(r, stderr, func(p *procmap.Process) error {
		if err := w.Process(p); err != nil {
			return fmt.Errorf("writing the mappings: %w", err)
		}
		return nil
	})
	if cerr := w.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("writing the mappings: %w", cerr)
	}
	return err
}

// errSome: some of the processes asked for could not be read; the reason for each
// has been printed.
var errSome = errors.New("not all of the processes could be read")

// walk reads the requested processes, and prints what could not be read: of each
// process that was named, and how many of all.
func (j *Job) walk(r *procmap.Reader, stderr io.Writer, fn func(*procmap.Process) error) error {
	named := len(j.PIDs) > 0
	failed := false
	counts, err := r.Walk(j.PIDs, func(p *procmap.Process, err error) error {
		if err == nil {
			return fn(p)
		}
		if named {
			failed = true
			fmt.Fprintf(render.Output(stderr), "ustack maps: %v\n", err)
		}
		return nil
	})
	if n := j.ids.Slow(); n > 0 {
		fmt.Fprintf(render.Output(stderr), "ustack maps: %s\n", render.NoAnswer(n))
	}
	switch {
	case err != nil:
		return err
	case failed:
		return errSome
	case !named:
		render.WriteMapsCounts(render.Output(stderr), &counts, procmap.CanTrace(), r.Hidden())
	}
	return nil
}
