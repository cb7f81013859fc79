package observed

import (
	"slices"

	"ustack/filemap/proof"
)

// mapped adds that the process had the mapping that a frame lies in.
func (f *frame) mapped(m *moment, c candidate) {
	if f.why == nil {
		return
	}
	step := proof.Step{Statement: proof.Mapped, PID: int(c.run.pid), File: c.run.file.name}
	if !m.covered || c.seen < len(m.versions) {
		step.Statement = proof.MappedSometime
	}
	step.From, step.To = m.versions[0].at, m.versions[len(m.versions)-1].at
	f.why.Add(step)
}

// landed adds the step that decides about a raw address, which is in a mapping, nil if
// it is in none.
func (f *frame) landed(m *moment, v proof.Verdict, found *mapping) {
	if f.why == nil {
		return
	}
	step := proof.Step{Statement: v.By, PID: int(m.key.pid), From: m.versions[0].at, To: m.versions[len(m.versions)-1].at}
	if found != nil && found.file != nil {
		step.File = found.file.name
	}
	f.why.Add(step)
}

// carried adds that a mapping carries the identifier.
func (f *frame) carried(pin proof.Pin[*run]) {
	r := pin.Mapping
	step := proof.Step{Statement: proof.Carried, PID: int(r.pid), File: r.file.name, From: pin.First, To: pin.Last}
	if pin.Inferred {
		step.Statement = proof.Only
	}
	f.why.Add(step)
	if f.at < pin.First || f.at > pin.Last {
		f.why.Add(proof.Step{Statement: proof.Kept, PID: int(r.pid), File: r.file.name, From: r.first, To: r.last})
	}
}

// others adds what is known of the other files that have an offset.
func (e *Mappings) others(m *moment, f *frame, but *run) {
	if f.why == nil {
		return
	}
	if !m.whole {
		f.why.Add(proof.Step{Statement: proof.Unsettled})
	}
	list, _ := m.candidates(f.offset)
	x := e.seen[observed{m.key, f.id}]
	for _, c := range list {
		step := proof.Step{Statement: proof.Possible, File: c.run.file.name}
		why, excluded := e.pins.Excluded(f.id, c.run)
		switch {
		case c.run == but:
			continue
		case excluded && why == proof.CarriesOther:
			step.Statement, step.ID = why, e.pins.Carries(c.run)
		case excluded:
			step.Statement = why
		case x != nil && x.open && !slices.Contains(e.look([]*run{c.run}, x.samples), c.run):
			step.Statement = proof.NoCall
		}
		f.why.Add(step)
	}
}
