package futex

// reporter makes reports of what the parts of an analysis know. It changes none of
// them: an analysis may go on after a report, and a second one is the same. What a
// report needs besides is in underway, for waits that have not ended, and judge, for the
// verdict; both are made anew each time.
type reporter struct {
	opt Options
	// claimed are the frames of all whose file is only claimed.
	claimed, frames int64

	stacks  *stacks
	losses  *losses
	tasks   *tasks
	locks   *locks
	sites   *sites
	holders *holders
	calls   *calls
}
