package contention

import (
	"flag"

	"ustack/render/futex"
	"ustack/render/futex/impact"
)

// impactFlags defines the flags that ask what the run time depends on.
func impactFlags(fs *flag.FlagSet, v *futex.ImpactView) {
	fs.BoolVar(&v.On, "impact", false, "show the critical path, and the part of each lock in it")
	place := func(to *string) func(string) error {
		return func(text string) error {
			v.On, *to = true, text
			return nil
		}
	}
	fs.Func("from", "the critical path begins at this `PLACE`: a time of the trace, or the text of a marker", place(&v.From))
	fs.Func("to", "the critical path ends at this `PLACE`", place(&v.To))
	fs.Func("what-if", "predict the run time with a `CHANGE`: LOCK=halve, LOCK=shard:N or LOCK=remove; may be repeated", func(text string) error {
		c, err := impact.ParseChange(text)
		v.On, v.WhatIf = true, append(v.WhatIf, c)
		return err
	})
}
