package filemap

import "ustack/tracefs"

// Trust is how well the file of a frame is known. A frame has either a file
// and a trust, or a reason why it has no file: never both, never neither.
type Trust uint8

const (
	// NoTrust is the trust of a frame without a file.
	NoTrust Trust = iota
	// Announced: the kernel looked at this very mapping because of this very
	// stack, and said so.
	Announced
	// Verified: the process had the file mapped there then.
	Verified
	// Inferred: the mapping event was wrong or missing, and the mappings
	// leave this one file only.
	Inferred
	// Late: found by reading the process afterwards, when the mapping may have
	// changed.
	Late
	// Claimed: the kernel has announced the identifier because of another
	// stack, of this process or another one. It can be stale: the hash of a
	// pointer means something else once the memory is used again, and the
	// kernel does not notice.
	Claimed

	trustCount
)

// Skipped returns the trust of a function that is on the stack although the kernel
// gave no frame of it, after a frame of this trust: never more.
func (t Trust) Skipped() Trust {
	if t == Late || t == Claimed {
		return t
	}
	return Inferred
}

// Mark returns the mark of this trust in text, so that reading it again trusts
// the file no more.
func (t Trust) Mark() tracefs.Mark {
	switch t {
	case Late:
		return tracefs.MarkLate
	case Claimed:
		return tracefs.MarkClaimed
	case Inferred:
		return tracefs.MarkInferred
	}
	return tracefs.NoMark
}

// Marked returns the trust of a file with a mark in text: at most Announced.
func Marked(m tracefs.Mark) Trust {
	switch m {
	case tracefs.MarkLate:
		return Late
	case tracefs.MarkClaimed:
		return Claimed
	case tracefs.MarkInferred:
		return Inferred
	}
	return Announced
}

// String returns the word used in all outputs.
func (t Trust) String() string {
	return [...]string{"", "announced", "verified", "inferred", "late", "claimed"}[t]
}

// Reason is why a frame has no file. The list is closed: outputs, totals and
// documentation all use these words.
type Reason uint8

const (
	// NoReason is the reason of a frame that has a file.
	NoReason Reason = iota
	// Unannounced: the kernel never reported the meaning of the identifier.
	Unannounced
	// Lost: as Unannounced, and records were lost where the mapping event
	// could have been. For a raw address: mapping records were lost, and the
	// mapping there before is not the one there after.
	Lost
	// Ambiguous: two mapping events fit, and their times do not decide between them.
	Ambiguous
	// Contradicted: the kernel announced a file that the process had not
	// mapped there, and the mappings leave no single other one.
	Contradicted
	// Truncated: the frame's text is cut off.
	Truncated
	// NoVMA: the kernel found no mapping at the address (unmapped, vsyscall,
	// not canonical), or the mappings of the process at that time have none.
	NoVMA
	// Anonymous: memory without a file: heap, stack, JIT code.
	Anonymous
	// NotCode: the process had no executable mapping at the address, and could
	// no longer be read for what else it had there.
	NotCode
	// VDSO: the vDSO, or another of the small special mappings that the
	// kernel gives a process.
	VDSO
	// NoAddressSpace: a raw address, and no mappings of the process to look
	// it up in, or the mapping at that address is unknown.
	NoAddressSpace
	// NoIdentifier: an offset in a file, without an identifier of the file (dialect
	// D1).
	NoIdentifier
	// VMAOffset: an offset from the beginning of a mapping, which is not one
	// in the file (option sym-userobj), and no mappings to convert it.
	VMAOffset
	// Forgotten: as Unannounced, but the table of identifiers was full once,
	// so the mapping event may have been dropped by ustack itself.
	Forgotten
	// Unreadable: a frame in no form that ustack knows, or what an x86 kernel has taken
	// for a frame of a 32-bit program, whose stack it walks as one of 64 bits.
	Unreadable
	// OnlyClaimed: its file is only Claimed, and such frames stay unresolved
	// (--strict).
	OnlyClaimed
	// NoPath: an offset in a file with a known build ID, and no file with that build ID is
	// found here.
	NoPath

	reasonCount
)

// ReasonCount is the number of reasons, NoReason included; TrustCount the
// number of trusts.
const (
	ReasonCount = int(reasonCount)
	TrustCount  = int(trustCount)
)

var reasonNames = [...]string{
	NoReason: "", Unannounced: "unannounced", Lost: "lost", Ambiguous: "ambiguous", Contradicted: "contradicted",
	Truncated: "truncated", NoVMA: "no-vma", Anonymous: "anonymous", NotCode: "not-code", VDSO: "vdso",
	NoAddressSpace: "no-address-space", NoIdentifier: "no-identifier",
	VMAOffset: "vma-offset", Forgotten: "forgotten", Unreadable: "unreadable", OnlyClaimed: "claimed",
	NoPath: "no-path",
}

// String returns the word used in all outputs.
func (r Reason) String() string { return reasonNames[r] }

// ParseReason finds the reason of a word.
func ParseReason(word string) (Reason, bool) {
	for r, name := range reasonNames {
		if r > 0 && name == word {
			return Reason(r), true
		}
	}
	return NoReason, false
}
