package futex

// reporter makes reports of the parts of an analysis. It changes none of them: an
// analysis may go on after a report, and a second one is the same. The other state of
// a report is in underway, for waits that have not ended, and diagnosis, for the verdict;
// both are made anew each time.
type reporter struct {
	opt Options
	// claimed are the frames of all whose file is only claimed.
	claimed, frames int64

	stacks   *stacks
	losses   *losses
	tasks    *tasks
	locks    *locks
	sites    *sites
	holders  *holders
	activity *activity
	splits   *splits
	held     *held
	calls    *calls
}
