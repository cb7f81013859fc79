package input

import (
	"fmt"

	"ustack/tracefs/perfdata"
)

// clock returns the name of a file's clock, "" if it is unknown, or its ring buffers have several:
// text does not say by which clock it is. Clocks that read perf's have its name.
func (in *File) clock() string {
	switch {
	case in.perf != nil:
		return family(in.perf.Clock())
	case in.pages == nil:
		return ""
	}
	clock := ""
	for i := range in.pages.instances {
		own := family(in.pages.clock(i))
		if i > 0 && own != clock {
			return ""
		}
		clock = own
	}
	return clock
}

// family returns one name for the clocks whose times can be compared with those of perf: they
// read the same one (kernel/trace/trace_clock.c); global is kept from going back, so it can be
// ahead of it.
func family(clock string) string {
	if clock == "local" || clock == "global" {
		return "perf"
	}
	return clock
}

// oneClock has what perf has recorded converted to the clock of the other files. Known clocks
// that differ are an error: times by them cannot be compared.
func oneClock(files []*File) error {
	common, of := "", ""
	for _, recorded := range [...]bool{false, true} { // perf's files come last, as they can be converted
		for _, f := range files {
			clock := f.clock()
			if (f.perf != nil) != recorded || clock == "" || clock == common {
				continue
			}
			switch {
			case common == "":
				common, of = clock, f.Name
			case perfdata.Supported && recorded:
				if err := f.perf.UseClock(common); err != nil {
					return fmt.Errorf("merging %s with %s: %w", f.Name, of, err)
				}
			default:
				return fmt.Errorf("merging %s with %s: the clock of one is %q, of the other %q; record both by one clock", f.Name, of, clock, common)
			}
		}
	}
	return nil
}
