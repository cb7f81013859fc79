package timeline

import (
	"ustack/filemap/proof"
	"ustack/filemap/resolve"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// address gives a raw address the attribution that proof.Address decides on by what is known
// of the process at that time; j.found is what that was. It returns the space, which is
// a new one if the process was read.
func (j *Attributor) address(pid int, sp *space.Space, addr uint64, t tracefs.Time, o *resolve.Attribution) *space.Space {
	hit := j.recent.slot(pid, addr)
	if !j.late && hit.is(sp, addr, j.since(t), t) {
		*o, j.found = hit.attribution, &hit.verdict
		return sp
	}
	j.found = &j.looked
	found := j.find(&j.looked, sp, addr, t)
	if (j.looked.none() && proof.IsUser(addr) || j.looked.nameless()) && j.opt.Querier != nil && j.opt.Querier.Ask(pid, addr, t) {
		sp = j.opt.Spaces.Space(pid)
		hit = j.recent.slot(pid, addr)
		found = j.find(&j.looked, sp, addr, t)
	}
	if j.looked.found() && j.missedSince(j.looked.place, t) {
		j.looked.known.Time = proof.Doubted
	}
	*o = j.attribution(&j.looked)
	if found.exact() && !j.late {
		*hit = entry{space: sp, addr: addr, stretch: found, attribution: *o, verdict: j.looked}
	}
	return sp
}

// loading is the attribution of an address of a process that executes a program: it is of
// the old program, or none.
func (j *Attributor) loading(addr uint64, o *resolve.Attribution) {
	j.looked = verdict{known: proof.Address{Addr: addr, Time: proof.Changing}}
	j.found = &j.looked
	*o = j.attribution(j.found)
}

// landed adds the step that decides about the address looked up last.
func (j *Attributor) landed(why *proof.Steps, pid int, t tracefs.Time) {
	step := proof.Step{Statement: j.found.known.Decide().By, PID: pid, From: t - j.before, To: t + j.opt.Stamp.After}
	if m := j.found.place.Mapping; m != nil {
		step.File = m.File.Name
	}
	why.Add(step)
}
