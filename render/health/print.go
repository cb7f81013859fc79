package health

import "ustack/filemap/unwind/health"

// Inspector looks at files; inspect.Inspector does.
type Inspector interface {
	// File looks at a file that the user has named.
	File(name string) *health.Target
	// Process looks at the files of a process, and calls f with each.
	Process(pid int, f func(*health.Target) error) (health.Process, error)
}

// Print prints files that the user has named, then the files of processes. It calls
// complain with the error of each that cannot be looked at, and goes on; its own
// error is of writing.
func Print(w Writer, i Inspector, files []string, pids []int, complain func(error)) error {
	write := func(s *health.Target) error {
		if s.Err != nil && (s.PID == 0 || !s.NotELF) { // a process can map what it likes
			complain(s.Err)
			return nil
		}
		return w.File(s)
	}
	for _, name := range files {
		if err := write(i.File(name)); err != nil {
			return err
		}
	}
	for _, pid := range pids {
		if err := printProcess(w, i, pid, write, complain); err != nil {
			return err
		}
	}
	return w.Close()
}

// printProcess prints the files of a process.
func printProcess(w Writer, i Inspector, pid int, write func(*health.Target) error, complain func(error)) error {
	var failed error // to write
	p, err := i.Process(pid, func(s *health.Target) error {
		failed = write(s)
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		complain(err)
		return nil
	}
	return w.Process(&p)
}
