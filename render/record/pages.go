package record

import (
	"fmt"

	"ustack/filemap/resolve"
	"ustack/tracefs/pagefile"
)

// Pages is the file of a report of pages, which a pagefile.Capture makes. Like a File it is
// private, and called NAME.partial until it is whole.
type Pages struct {
	target
	capture *pagefile.Capture
}

// smallestPages is the least that a report of pages can be limited to: the formats of
// events and what all processes have mapped take most of it.
const smallestPages = 64 << 10

// CreatePages begins a report of pages, of at most so many bytes, 0 for no bound, on an account.
func CreatePages(name string, most int64, capture *pagefile.Capture, account Account, fields []Field) (*Pages, error) {
	if most > 0 && most < smallestPages {
		return nil, fmt.Errorf("writing a report of pages of at most %d bytes: %d is the least", most, smallestPages)
	}
	t, err := createTarget(name)
	if err != nil {
		return nil, err
	}
	p := &Pages{t, capture}
	if err := p.OnAccount(account); err != nil {
		return nil, err
	}
	fields = append([]Field{{"trace", capture.ID()}}, fields...)
	if err := capture.Start(p, most, appendFields(nil, fields)); err != nil {
		_ = p.Discard() // the error is the first one
		return nil, err
	}
	return p, nil
}

// Write implements io.Writer, for the capture.
func (p *Pages) Write(b []byte) (int, error) { return out{&p.target}.Write(b) }

// Finish ends the report, and gives it its name.
func (p *Pages) Finish(t *resolve.Totals) error {
	return p.finish(p.capture.Finish(func(left pagefile.Counts) []byte {
		lost, exact := t.LostRecords()
		mark := ""
		if !exact {
			mark = ">="
		}
		n := p.capture.Counts()
		return fmt.Appendf(nil, "# ustack: end events=%d stacks=%d lost=%s%d left_out_events=%d left_out_stacks=%d\n",
			n.Events, n.Stacks, mark, lost, left.Events, left.Stacks)
	}))
}

// Abandon closes the report without an end. The part that was written can be read.
func (p *Pages) Abandon() error {
	err := p.capture.Abandon()
	if cerr := p.f.Close(); err == nil {
		err = cerr
	}
	return err
}
