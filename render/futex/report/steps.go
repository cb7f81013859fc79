//go:build !device

package report

import (
	"fmt"

	"ustack/render/framejson"
	"ustack/render/futex"
)

func stepsOf(w *futex.Wait) (out []stepJSON) {
	for i := range w.Steps {
		s := &w.Steps[i]
		one := stepJSON{From: s.From, To: s.To, Did: s.Did}
		if s.Did == "blocked" {
			one.On, one.Call = s.On.What.String(), s.On.Call
		}
		for k, o := range s.Owners {
			x := stepOwnerJSON{TID: o.TID, Comm: framejson.Clean(o.Comm)}
			if k < len(s.Owners)-1 {
				x.Address = fmt.Sprintf("%#x", o.On.Address)
			}
			one.Owners = append(one.Owners, x)
		}
		out = append(out, one)
	}
	return out
}
