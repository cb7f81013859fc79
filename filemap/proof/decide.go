package proof

import "ustack/filemap"

// Place is where a process had a frame, by one statement about it: in which part of
// the file that the statement names.
type Place uint8

const (
	// Unsaid: there is no such statement.
	Unsaid Place = iota
	// Unknown: nothing is known of what the process had mapped then.
	Unknown
	// Missed: its mappings were read, which may have missed the file.
	Missed
	// Absent: it had not mapped the file.
	Absent
	// Elsewhere: it had, but no mapping of the file has the frame.
	Elsewhere
	// NoCode: it had code of the file, which does not have the frame. Its other
	// mappings are not known.
	NoCode
	// InData: the frame is in the file, and in no code of it.
	InData
	// InSeveral: the frame is in code of several files, and the statement can be
	// about each of them.
	InSeveral
	// InCode: the frame is in code of the file.
	InCode

	placeCount
)

// Sure is how well a statement is known to hold for the time of the frame.
type Sure uint8

const (
	// Proven: it holds for that process at that time.
	Proven Sure = iota
	// ByExclusion: it is what exclusion has left, or rests on that.
	ByExclusion
	// Afterwards: it holds for a time at which the mappings may have changed, or
	// for what may be another process.
	Afterwards

	sureCount
)

// Said is a statement about a frame, with its scope.
type Said struct {
	Place Place
	Sure  Sure
	// Left is what other statements leave of one that is not proven.
	Left Left
}

// When is what is known of the time of a frame.
type When uint8

const (
	// Known: all that is known of the process holds for that time.
	Known When = iota
	// Changing: code in which the frame can lie was mapped within the precision
	// of its time.
	Changing
	// Doubted: records are missing, and what the frame can lie in is not the
	// same before and after.
	Doubted

	whenCount
)

// Witness gathers the statements about a frame with an identifier. Decide asks for
// each of them at most once, in the order of its rules, and for no more than it
// needs.
type Witness interface {
	// Time is what is known of the time of the frame.
	Time() When
	// Addressed: the raw address of a frame with this identifier, of the same
	// stack, is in a file.
	Addressed() Said
	// Numbered: the identifier is the device and inode of a file.
	Numbered() Said
	// Looked: the kernel looked at the mapping because of this stack, and said
	// which file it is.
	Looked() Said
	// Carried: a mapping of a file carries the identifier, and was there all the
	// time.
	Carried() Said
	// Supposed: it carried the identifier, and nothing says that it went away.
	Supposed() Said
	// Claimed: the kernel said which file it is because of another stack.
	Claimed() Said
}

// Act is what becomes of a frame.
type Act uint8

const (
	// Keep: it keeps the attribution that it has: what the kernel said, or nothing.
	Keep Act = iota
	// Name: it has the file of the statement that decides.
	Name
	// Drop: it has no file, for a reason.
	Drop
)

// Verdict is what becomes of a frame.
type Verdict struct {
	Act    Act
	By     Statement // that decides, if it is about a statement
	Trust  filemap.Trust
	Reason filemap.Reason
}

// effect is what a statement does to a frame; the zero effect is to pass it on to
// the next rule.
type effect struct {
	does   bool
	act    Act
	reason filemap.Reason
}

var (
	keep = effect{does: true, act: Keep}
	name = effect{does: true, act: Name}
)

func drop(r filemap.Reason) effect { return effect{does: true, act: Drop, reason: r} }

// dialects is which identifiers a rule is for.
type dialects uint8

const (
	all dialects = iota
	hashes
	inodes
)

// rule is what one kind of statement does to a frame, by the place that it has by it.
type rule struct {
	by   Statement
	of   dialects
	said func(Witness) Said
	does [placeCount]effect
}

// rules are in order: the first one that does anything decides. Each effect that
// is not given passes the frame on.
var rules = [...]rule{
	{by: Addressed, said: Witness.Addressed, does: [placeCount]effect{
		InCode: name, NoCode: drop(filemap.NotCode)}},
	{by: Numbered, of: inodes, said: Witness.Numbered, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.NotCode), NoCode: drop(filemap.NotCode),
		Elsewhere: drop(filemap.Contradicted)}},
	{by: Looked, said: Witness.Looked, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.NotCode), NoCode: drop(filemap.NotCode),
		Elsewhere: drop(filemap.NotCode), Absent: keep, Missed: keep, Unknown: keep}},
	{by: Carried, said: Witness.Carried, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.NotCode), NoCode: drop(filemap.NotCode),
		Elsewhere: drop(filemap.Contradicted), Absent: drop(filemap.Contradicted), Unknown: name}},
	{by: Supposed, said: Witness.Supposed, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.NotCode), NoCode: drop(filemap.NotCode)}},
	{by: Claimed, of: hashes, said: Witness.Claimed, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.Contradicted), NoCode: drop(filemap.NotCode),
		Elsewhere: drop(filemap.Contradicted), Absent: drop(filemap.Contradicted), Missed: drop(filemap.NoAddressSpace), Unknown: keep}},
	{by: Claimed, of: inodes, said: Witness.Claimed, does: [placeCount]effect{
		InCode: name, InSeveral: drop(filemap.Ambiguous), InData: drop(filemap.NotCode), NoCode: drop(filemap.NotCode),
		Elsewhere: drop(filemap.Contradicted), Absent: drop(filemap.Contradicted), Missed: keep, Unknown: keep}},
}

// times is what the time of a frame does to it.
var times = [whenCount]effect{Changing: drop(filemap.Ambiguous), Doubted: drop(filemap.Lost)}

// lefts is what other statements do to a name, or to a claim that would stand.
var lefts = [leftCount]effect{Refuted: drop(filemap.Contradicted), Open: drop(filemap.Ambiguous)}

// trusts is the trust of a name by a proof.
var trusts = [sureCount]filemap.Trust{Proven: filemap.Verified, ByExclusion: filemap.Inferred, Afterwards: filemap.Late}

// Decide decides what becomes of a frame with an identifier, of an inode or a hash.
// The order of the rules, and what each of them makes of a frame, is here and
// nowhere else: the engines only gather statements. For all of them:
//
//   - A frame gets a name only by a statement that there is, and only if by that
//     statement it is in code of one file; where nothing is known of the process,
//     by what carries the identifier elsewhere.
//   - Only what is proven for that time is verified; what is not is no more than
//     its scope: inferred, late or claimed.
//   - What the kernel said because of another stack is never more than claimed,
//     and never changes what another statement decides.
//   - A frame that keeps its attribution keeps all of it; so a frame of which nothing is
//     known has what the kernel said.
func Decide(w Witness, inode bool) Verdict {
	if e := times[w.Time()]; e.does {
		return Verdict{Act: e.act, Reason: e.reason}
	}
	for i := range rules {
		r := &rules[i]
		if r.of == hashes && inode || r.of == inodes && !inode {
			continue
		}
		s := r.said(w)
		e := r.does[s.Place]
		if !e.does {
			continue
		}
		if left := lefts[s.Left]; left.does && e.act != Drop {
			e = left
		}
		v := Verdict{Act: e.act, By: r.by, Reason: e.reason}
		if e.act == Name {
			v.Trust = r.trust(s.Sure)
		}
		return v
	}
	return Verdict{}
}

// trust is what a name has by the rule.
func (r *rule) trust(s Sure) filemap.Trust {
	if r.by == Supposed || r.by == Claimed {
		return filemap.Claimed
	}
	return trusts[s]
}
