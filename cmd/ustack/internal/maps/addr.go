package maps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/filemap/procmap"
	"ustack/render"
)

// addresses prints what addresses of a process are.
func (j *Job) addresses(stdin io.Reader, stdout io.Writer) error {
	r, err := j.reader(procmap.Filter{})
	if err != nil {
		return err
	}
	a := addressLookup{r: r, out: render.NewAddresses(render.Output(stdout), j.JSON)}
	if err := a.open(j.PIDs[0]); err != nil {
		return err
	}
	defer a.h.Close()
	if j.Addr != "-" {
		err = a.ask(j.Addr)
	} else {
		err = askAll(stdin, a.ask, a.out.Flush)
	}
	if ferr := a.out.Flush(); ferr != nil && err == nil {
		err = fmt.Errorf("writing the addresses: %w", ferr)
	}
	return err
}

// addressLookup looks up addresses of one process, whose memory stays open.
type addressLookup struct {
	r   *procmap.Reader
	h   *procmap.Handle
	p   procmap.Process
	out *render.Addresses
}

func (a *addressLookup) open(pid int) error {
	h, err := a.r.Open(pid)
	if err != nil {
		return err
	}
	a.h, a.p.PID = h, pid
	if a.p.Stat, err = a.r.Stat(pid); err != nil {
		h.Close()
	}
	return err
}

// maxAddress bounds a word of the input.
const maxAddress = 4096

// askAll looks up the addresses on the input, with blanks or line feeds
// between. Answers are written before the input makes us wait.
func askAll(stdin io.Reader, ask func(word string) error, flush func() error) error {
	in := bufio.NewReader(stdin)
	words := bufio.NewScanner(in)
	words.Buffer(make([]byte, maxAddress), maxAddress)
	words.Split(bufio.ScanWords)
	n := 0
	for words.Scan() {
		n++
		if err := ask(words.Text()); err != nil {
			return fmt.Errorf("address %d of the input: %w", n, err)
		}
		if in.Buffered() == 0 {
			if err := flush(); err != nil {
				return fmt.Errorf("writing the addresses: %w", err)
			}
		}
	}
	if err := words.Err(); err != nil {
		return fmt.Errorf("reading address %d of the input: %w", n+1, err)
	}
	return nil
}

// parseAddress reads an address, hexadecimal with or without 0x.
func parseAddress(word string) (uint64, error) {
	addr, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a hexadecimal address", word)
	}
	return addr, nil
}

// ask looks up one address.
func (a *addressLookup) ask(word string) error {
	addr, err := parseAddress(word)
	if err != nil {
		return err
	}
	m, ok, err := a.h.At(addr)
	if errors.Is(err, procmap.ErrGone) {
		// It has executed another program: that is what it is now.
		pid, began := a.p.PID, a.p.Stat.StartTime
		a.h.Close()
		if err := a.open(pid); err != nil {
			return err
		}
		if a.p.Stat.StartTime != began {
			return fmt.Errorf("process %d has ended, and another one has its PID", pid)
		}
		m, ok, err = a.h.At(addr)
	}
	if err != nil {
		return err
	}
	found := &m
	if !ok {
		found = nil
	}
	if err := a.out.Address(&a.p, addr, found); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	return nil
}
