package report

import "ustack/render"

// reach says how complete the stacks of waits are.
func (t *text) reach() {
	if r := t.r.Reach; r != nil {
		t.f("Stacks: of %s, %s.\n", plural64(r.Stacks, "wait"), render.ReachWords(r))
	}
}
