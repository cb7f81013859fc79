package maps

import (
	"errors"
	"fmt"
	"io"

	"ustack/render"
	"ustack/tracefs/input"
	"ustack/tracefs/tracedat"
)

// saved shows the mappings that a trace.dat has (trace-cmd record --proc-map). If
// some cannot be read, the rest is shown before the error.
func (j *Job) saved(stdin io.Reader, stdout io.Writer) error {
	trace, err := input.OpenAll([]string{j.File}, stdin, input.Options{})
	if err != nil {
		return err
	}
	defer trace.Close()
	all, err := trace.Processes()
	if len(all) == 0 && err == nil {
		return fmt.Errorf("%s has no mappings: only a trace.dat of trace-cmd record --proc-map does", j.File)
	}
	processes, missing := j.chosen(all)
	switch {
	case len(processes) == 0:
		return errors.Join(err, missing)
	case j.Addr != "":
		return errors.Join(err, missing, j.savedAddresses(stdin, stdout, processes))
	}
	w := render.NewSavedMaps(render.Output(stdout), j.JSON, j.Files)
	var werr error
	for i := 0; i < len(processes) && werr == nil; i++ {
		werr = w.Process(&processes[i])
	}
	if werr == nil {
		werr = w.Close()
	}
	if werr != nil {
		return fmt.Errorf("writing the mappings: %w", werr)
	}
	return errors.Join(err, missing)
}

// savedAddresses prints what addresses of a process were, in each of its readings
// that has the address.
func (j *Job) savedAddresses(stdin io.Reader, stdout io.Writer, readings []tracedat.Process) error {
	out := render.NewSavedAddresses(render.Output(stdout), j.JSON)
	ask := func(word string) error {
		addr, err := parseAddress(word)
		if err != nil {
			return err
		}
		found := false
		for i := range readings {
			p := &readings[i]
			if r := p.Find(addr); r != nil || i == len(readings)-1 && !found {
				found = true
				if err := out.Address(p, addr, r); err != nil {
					return fmt.Errorf("writing the addresses: %w", err)
				}
			}
		}
		return nil
	}
	var err error
	if j.Addr != "-" {
		err = ask(j.Addr)
	} else {
		err = askAll(stdin, ask, out.Flush)
	}
	if ferr := out.Flush(); ferr != nil && err == nil {
		err = fmt.Errorf("writing the addresses: %w", ferr)
	}
	return err
}

// chosen returns the requested processes.
func (j *Job) chosen(all []tracedat.Process) (some []tracedat.Process, err error) {
	if len(j.PIDs) == 0 {
		return all, nil
	}
	var errs []error
	for _, pid := range j.PIDs {
		from := len(some)
		for i := range all {
			if int(all[i].PID) == pid {
				some = append(some, all[i])
			}
		}
		if len(some) == from {
			errs = append(errs, fmt.Errorf("%s has no mappings of process %d", j.File, pid))
		}
	}
	return some, errors.Join(errs...)
}
