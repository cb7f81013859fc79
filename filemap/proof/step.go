package proof

import "ustack/tracefs"

// Statement is the kind of a step of a proof.
type Statement uint8

const (
	// Looked: the kernel looked at the mapping because of this very stack, and
	// said that it is File.
	Looked Statement = iota
	// Claimed: it said so because of another stack.
	Claimed
	// Mapped: the process had File mapped, with the frame's place in it, from
	// From to To.
	Mapped
	// MappedSometime: it had, at one of several moments or at another time.
	MappedSometime
	// Addressed: the raw address of the frame, or of another one of the stack with
	// its identifier, is in a mapping of File.
	Addressed
	// Numbered: device and inode of the frame are the mapping's.
	Numbered
	// Carried: the identifier was that of a mapping of File in process PID, from
	// From to To.
	Carried
	// Kept: that mapping is known to have stayed from From to To.
	Kept
	// Supposed: nothing says that it went away, but that would not have been
	// seen.
	Supposed
	// CarriesOther: File carries the identifier ID.
	CarriesOther
	// WasOther: File was mapped when the identifier was that of another file.
	WasOther
	// NoCall: the code of File has no call before the frame's place.
	NoCall
	// Possible: the frame can be in File as well.
	Possible
	// Only: no other file of the process is left.
	Only
	// NotMapped: the process had no code of File there.
	NotMapped
	// Data: the place is in File, and no code.
	Data
	// Unsettled: what the process had before and after is not the same.
	Unsettled
	// Reused: the identifier was that of another file before, or is later.
	Reused

	// The rest is about a raw address.

	// NotUser: it is none that user space can have.
	NotUser
	// Executing: the process was executing a program.
	Executing
	// Unrecorded: records are missing, and what it had there before and after is
	// not the same.
	Unrecorded
	// Unseen: what it had there is unknown.
	Unseen
	// Unmapped: it had nothing there, from From to To.
	Unmapped
	// Codeless: it had no code there, from From to To.
	Codeless
	// Fileless: what it had there is memory without a file.
	Fileless

	statementCount
)

// StatementCount is the number of statements.
const StatementCount = int(statementCount)

// Step is a step of a proof, or a reason against one. Fields that its Statement
// does not use are zero.
type Step struct {
	Statement Statement
	PID       int
	File      string // path
	ID        tracefs.Identifier
	From, To  tracefs.Time // nanoseconds
}

// Steps are the steps of a proof, in the order of reasoning.
type Steps []Step

// maxSteps bounds the steps: there may be many files.
const maxSteps = 64

// Add appends a step. A nil list takes none.
func (s *Steps) Add(step Step) {
	if s != nil && len(*s) < maxSteps {
		*s = append(*s, step)
	}
}
