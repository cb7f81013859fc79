package live

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/filemap/resolve"
	"ustack/filemap/tasks"
	"ustack/render"
	"ustack/tracefs/instance"
)

// startLine prints one line: the events that are traced, and how.
func (s *session) startLine() error {
	if s.opt.Reporter.Quiet {
		return nil
	}
	kb, err := s.tracer.BufferKB()
	if err != nil {
		return err
	}
	how := s.follow.how
	if how == tasks.Name {
		how += " (" + tasks.Limit + ")"
	}
	if s.in == nil {
		perfLine(s, how, kb)
		return nil
	}
	s.say("Linux %s, %s, mappings by %s, %d KB of buffer a CPU read as %s, clock %s, instance %s",
		Release(), s.stackWords(), how, kb, s.source.Name(), Clock, s.in.Name())
	return nil
}

func (s *session) stackWords() string {
	switch {
	case s.stacks != instance.DeferredStacks && s.in.Refused(s.stacks):
		return "stock stacks (userstacktrace; the kernel refuses deferred ones: too many instances have them)"
	case s.userStacks == facts.StacksNever:
		return "no stacks (the kernel takes none: no CONFIG_USER_STACKTRACE_SUPPORT)"
	case s.stacks != instance.DeferredStacks:
		return "stock stacks (userstacktrace)" + s.unwind.words()
	case len(s.maps) == 0:
		return "deferred stacks, no file mapping event" + s.unwind.words() + s.beside.words()
	}
	return fmt.Sprintf("deferred stacks, file mapping event %s%s%s", s.maps[0].Name, s.unwind.words(), s.beside.words())
}

// Release returns the kernel's release (uname -r).
func Release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// report prints the totals, and the buffer size that would have lost nothing.
func (s *session) report(t *resolve.Totals) {
	if s.opt.Reporter.Quiet {
		return
	}
	if s.needs.OwnTotals || s.needs.Screen {
		render.WriteLoss(s.opt.Reporter.Out, t)
	} else {
		render.WriteTotals(s.opt.Reporter.Out, t)
	}
	s.reportKernel(t)
	if !s.needs.Screen {
		s.reportParts()
	}
	for _, st := range s.refused() {
		s.say("CPU %d also refused %d records (commit overrun), at unknown times", st.CPU, st.CommitOverrun)
	}
	if kb := s.sufficient(t); kb > 0 {
		s.say("nothing would have been lost with %s", s.growth.enough(kb))
	}
}

// reportParts prints what the parts of a run have done.
func (s *session) reportParts() {
	if s.renewal.asked > 0 {
		s.say("asked the kernel %d times for all file mapping events again", s.renewal.asked)
	}
	s.settings.report(s.say)
	s.follow.report(s.say)
	s.beside.report(s.say, s.follow)
	s.unwind.report(s.say)
	s.growth.report(s.say)
	for _, note := range s.source.Notes() {
		s.say("%s", note)
	}
}

// refused returns the CPUs with records that the kernel did not take and does not
// report to readers of the buffer: a record that came while another had been begun a
// whole buffer ago (commit overrun in Documentation/trace/ftrace.rst).
func (s *session) refused() (list []instance.Stats) {
	stats, err := s.tracer.Stats()
	if err != nil {
		return nil
	}
	for _, st := range stats {
		if st.CommitOverrun > 0 {
			list = append(list, st)
		}
	}
	return list
}

// overruns returns how many records the kernel did not take, by its counts.
func overruns(stats []instance.Stats) (n uint64) {
	for _, st := range stats {
		n += st.CommitOverrun
	}
	return n
}

// weighEvery is how often records are weighed.
const weighEvery = time.Second

// weigh notes how large records are, when some have been lost: the buffer is
// full then.
func (s *session) weigh(t *resolve.Totals) {
	var gaps int64
	for _, l := range t.Lost {
		gaps += l.Gaps
	}
	if gaps == s.gaps || time.Since(s.weighed) < weighEvery {
		return
	}
	s.gaps, s.weighed = gaps, time.Now()
	stats, err := s.tracer.Stats()
	if err != nil {
		return // it is for a hint only
	}
	for _, st := range stats {
		s.bytes += st.Bytes
		s.entries += st.Entries
	}
}

// sufficient returns the buffer for each CPU, in KB, that would have held the
// lost records too, 0 if none were lost.
func (s *session) sufficient(t *resolve.Totals) int {
	stats, err := s.tracer.Stats()
	if err != nil {
		return 0
	}
	if s.entries == 0 {
		// The buffer was empty again each time that we looked. Records are
		// smaller than their text.
		s.bytes, s.entries = uint64(s.read.Load()), uint64(max(t.Events+t.Stacks, 1))
	}
	most := 0
	for _, st := range stats {
		if lost := st.Lost(); lost > 0 {
			const kb = 1024
			most = max(most, st.BufferKB+int((lost*s.bytes/s.entries+kb-1)/kb))
		}
	}
	const step = 64
	return (most + step - 1) / step * step
}
