package binary

import (
	"errors"
	"fmt"
	"io"

	"ustack/tracefs/ring"
)

// Pages gives the sub-buffers of one CPU, in the order they were written.
type Pages interface {
	// Page returns the next sub-buffer, valid until the next call, and
	// io.EOF after the last one. Another error may come with what there is
	// of a sub-buffer; it ends them, but for errEmpty and errSame.
	Page() ([]byte, error)
}

var (
	// errEmpty: there is no sub-buffer now, but there may be one later.
	errEmpty = errors.New("nothing to read yet")
	// errSame: it is still the last one, which comes with it, may have grown, and may
	// be elsewhere in memory.
	errSame = errors.New("nothing but what was read, and more of it")
)

// cpu walks the records of one CPU.
type cpu struct {
	id     int32
	pages  Pages
	layout *ring.Layout
	page   ring.Page
	number int // of the sub-buffer, from 0
	begun  bool
	ended  bool
	cut    bool // the sub-buffer lacks its end, which has been reported
	// lost is set if records are missing before the next one; count is how many, 0
	// if unknown.
	lost  bool
	count uint64
	errs  *errorList
	// lostOf makes the number of records that are missing before a sub-buffer of
	// the one it says, nil for the same.
	lostOf func(reported uint64) uint64
}

// next finds the next record, which is in c.page. It reports false at the end,
// and if there is none yet.
func (c *cpu) next() bool {
	for {
		if c.begun && c.page.Next() {
			return true
		}
		if c.begun {
			if c.page.Grow(c.layout) {
				continue
			}
			if err := c.page.Err(); err != nil {
				c.broken(err)
				c.page = ring.Page{}
			}
		}
		if c.ended || !c.load() {
			return false
		}
	}
}

// load begins the next sub-buffer.
func (c *cpu) load() bool {
	data, err := c.pages.Page()
	// The page that was read may be released only now: then there may be another
	// one. Records that are written meanwhile are not lost, it grows again.
	for again := false; err == errSame; again = true {
		c.page.Move(data)
		if c.page.Grow(c.layout) {
			return true
		}
		if again {
			return false
		}
		data, err = c.pages.Page()
	}
	if err == errEmpty {
		return false
	}
	if c.begun {
		c.number++
	}
	c.begun = true
	if err != nil {
		c.ended = true
		if err != io.EOF {
			c.errs.add(fmt.Errorf("reading sub-buffer %d of CPU %d: %w", c.number, c.id, err))
			c.missed(0)
		}
		if len(data) == 0 {
			c.page = ring.Page{}
			return false
		}
		c.cut = true
	}
	c.page.Reset(c.layout, data)
	if c.page.Missed {
		count := c.page.Lost
		if c.lostOf != nil {
			count = c.lostOf(count)
		}
		c.missed(count)
	}
	return true
}

// missed adds to the loss before the next record.
func (c *cpu) missed(count uint64) {
	if c.lost && (c.count == 0 || count == 0) {
		count = 0
	} else {
		count += c.count
	}
	c.lost, c.count = true, count
}

// broken notes that a sub-buffer could not be read to its end: how much was in the
// rest is unknown.
func (c *cpu) broken(err error) {
	var bad *ring.Error
	if err == nil || !errors.As(err, &bad) {
		return
	}
	if !c.cut {
		c.errs.add(fmt.Errorf("reading sub-buffer %d of CPU %d, %w", c.number, c.id, bad))
	}
	c.missed(0)
}

// maxErrors bounds the errors that are reported one by one.
const maxErrors = 10

// errorList keeps the first errors, and counts the others.
type errorList struct {
	list []error
	more int
}

func (l *errorList) add(err error) {
	if len(l.list) == maxErrors {
		l.more++
		return
	}
	l.list = append(l.list, err)
}

// err joins them all, nil if there is none.
func (l *errorList) err() error {
	if l.more > 0 {
		return errors.Join(append(l.list, fmt.Errorf("and %d more errors of this kind", l.more))...)
	}
	return errors.Join(l.list...)
}
