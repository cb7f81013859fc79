package saved

import (
	"errors"
	"fmt"

	"ustack/filemap/sideband"
	"ustack/filemap/space"
)

// useReport takes the address spaces that a report of pages has, if there are no better
// ones. Of times after its log nothing is sure (see beyond), so a log that was cut takes
// nothing more than sureness.
func (t *Trace) useReport() error {
	reports := t.Reports()
	switch {
	case len(reports) == 0 || t.options.Maps != "":
		return nil
	case t.Trace.Sources() > 1:
		return errors.New("a report of pages has mappings of its own: it is read by itself, not together with other traces")
	}
	log := reports[0].Log()
	if log == nil {
		return nil
	}
	h, err := sideband.Load(space.NewOf(replayedVersions), log)
	if h == nil {
		return err
	}
	if err != nil {
		t.note = fmt.Sprintf("the mappings of this report are not whole, and files are claimed only from there on: %v", err)
	}
	t.attributor.useHistory(h)
	t.attributor.own = true
	if t.options.Symbols {
		t.attributor.openVDSO(h.VDSO)
	}
	t.opt.Attributor = t.attributor.bounded()
	again := t.Again()
	if again == nil {
		return errors.New("reading a report of pages: it can be read only once")
	}
	if t.in.NoTemplates && t.in.Events {
		return nil
	}
	t.in.NoTemplates, t.in.Events = true, true // events have the times of their stacks
	return t.reopen(again)
}
