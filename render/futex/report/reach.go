package report

// reach says how complete the stacks of waits are.
func (t *text) reach() {
	r := t.r.Reach
	if r == nil || r.Waits == 0 {
		return
	}
	share := func(n int64) float64 { return 100 * float64(n) / float64(r.Waits) }
	t.f("Stacks: of %s, %.1f %% reach application code, %.1f %% the root of the thread", plural64(r.Waits, "wait"), share(r.Application), share(r.Root))
	if n := r.Waits - r.Unwound; n > 0 {
		t.f("; %d are the kernel's, by frame pointers", n)
	}
	if r.End != "" {
		t.f("; most of the others end in %s", clean(r.End))
	}
	t.f(".\n")
}
