//go:build !device

package futex

import "ustack/tracefs"

// steps returns who was waited for during a wait, in order. They leave out when that is
// unknown.
func (u *underway) steps(w *Wait, named func(int32, tracefs.Time) BlockedOn) (out []Step) {
	d := w.division
	if d == nil || !u.certain() {
		return nil
	}
	l, a := w.lock.find(), u.rp.activity
	if _, _, lost := u.gaps.Within(d.from, d.to); lost || !d.proven(l) {
		return nil
	}
	_, _, late := u.gaps.Within(min(d.rootProof, d.from), d.to)
	for i := range d.steps {
		s := &d.steps[i]
		if late && s.proof < d.from || !s.call.sureOwner(a) || !s.via.hold(a) || s.path == tooMany {
			continue
		}
		one := Step{From: s.from, To: s.to}
		a.links.each(s.path, func(x link) {
			one.Owners = append(one.Owners, Owner{x.tid, u.rp.tasks.commOfTID(x.tid), named(x.cause, 0)})
		})
		r := u.root(s.tid, s.cause, s.stack, named)
		one.Owners = append(one.Owners, Owner{TID: r.TID, Comm: r.Comm})
		one.Did, one.On, one.Stack = r.Did, r.On, r.Stack
		out = append(out, one)
	}
	return out
}
