package tracefs

import (
	"bytes"
	"strconv"

	"ustack/tracefs/escape"
	"ustack/tracefs/syscalls"
)

// Kind is the kind of a record.
type Kind uint8

// The kinds of record. Every source sorts what it reads into these.
const (
	// KindEvent is a traced event: tracepoint, system call, marker, printk.
	KindEvent Kind = iota + 1
	// KindCookie is the kernel's note that the event just before it asked
	// for a user stack (user_unwind_cookie). Record.Value is the cookie.
	KindCookie
	// KindStack is a user stack, deferred (<user stack unwind>,
	// Record.Value is its cookie) or immediate (<user stack trace>).
	KindStack
	// KindKernelStack is a kernel stack (<stack trace>).
	KindKernelStack
	// KindMappingEvent is the kernel's claim that an identifier is a file
	// (file_map and its older spellings).
	KindMappingEvent
	// KindLost says that records of a CPU were lost just before this place.
	// Record.Value is their number, 0 if the kernel did not know it.
	KindLost
	// KindGap marks a place where records may be missing without a count:
	// "buffer started", "[LINE TOO BIG]".
	KindGap
	// KindNote is text outside of records: header comments, blank lines, and lines
	// in no known form.
	KindNote
)

// Flags are properties of a record besides its kind.
type Flags uint16

const (
	// Deferred marks a stack that was unwound on return to user space and is
	// tied to its requesters by a cookie.
	Deferred Flags = 1 << iota
	// Cut marks a record whose text ends before its time: the kernel cut it
	// at the end of its 8 KiB text buffer, or the input ends inside it.
	Cut
	// Continued marks a piece of a record whose beginning went out with an
	// earlier batch (a record larger than a batch, or a pause of the input).
	Continued
	// Glued marks a record, cut too, that the next record follows in the same
	// line.
	Glued
	// Arrays marks a stack that the text has as arrays of bytes on one line
	// (trace-cmd report): its frames have a number and no text.
	Arrays
	// NoText marks a record that its source has decoded without making its text. It
	// has an Origin, and an event has a Call.
	NoText
	// CanWait marks the entry into a call of the futex family that can wait. Only
	// sources that read the kernel's binary records set it, in records with an Origin.
	CanWait
	// Returns marks an event of a system call that returns to the instruction after
	// its own (syscalls.Returns). The same sources set it, in the same records.
	Returns
	// Joined marks a record after a line that only another file begins with, in a file
	// that ustack has written: the record may be of another boot, by another clock.
	Joined
	// StackLeft marks an event whose stack the source has left out, as the consumer has
	// no use for it (binary.Options.Spare).
	StackLeft
	// Counted marks a stack whose Value is not a cookie but how often it was counted, as
	// BPF maps have it.
	Counted
)

// NoTID stands for an unknown thread, NoCPU for an unknown CPU.
const (
	NoTID = -1
	NoCPU = -1
)

// MaxTID is the largest thread ID Linux gives out (PID_MAX_LIMIT in
// include/linux/threads.h). A larger number is no thread.
const MaxTID = 4 << 20

// Record is one thing the kernel wrote. It is a view into its Batch: offsets
// into the batch's text and arenas, no pointers, so that a batch is cheap to
// fill and to reuse.
type Record struct {
	// Off and End bound the record's text in Batch.Text, all lines and line
	// feeds included.
	Off, End uint32
	// Body is where the text after "time: " begins in Batch.Text.
	Body uint32
	// TID is the thread (the "PID" of the text is a thread), global number.
	TID int32
	// CPU is the CPU whose ring buffer held the record.
	CPU int32
	// Lo and Hi bound the record's frames in Batch.Frames.
	Lo, Hi uint32
	// Item, if not zero, is one more than the index of what the record has been
	// decoded to: in Batch.MappingEvents (KindMappingEvent) or Batch.Calls
	// (KindEvent).
	Item uint32
	// Template, if not zero, is one more than the index in Batch.Templates of what
	// the record's frames are, and FrameText where their text begins in Batch.Text.
	Template, FrameText uint32
	Kind                Kind
	// Source is the input the record came from, the index in Batch.Heads.
	Source uint8
	Flags  Flags
	// Origin, if not zero, is one more than the index in Batch.Origins of what the
	// header says.
	Origin uint32
	// Value is the cookie (KindCookie, KindStack) or the count (KindLost, Counted).
	Value uint64
	// Noted is what Batch.NoteTime has noted, 0 if nothing: sources leave it so.
	Noted Time
}

// Identifier is what a frame carries in the place of a file. It means
// something only within one boot, and at one time. The zero value is no
// identifier.
type Identifier struct {
	hi, lo uint64
}

// tags of Identifier.hi: which kind of number lo is.
const (
	tagHash  = 1 << 62
	tagInode = 1 << 63
)

// HashIdentifier returns the identifier of the hash dialects (` : 0x666220af`).
func HashIdentifier(hash uint64) Identifier { return Identifier{tagHash, hash} }

// InodeIdentifier returns the identifier of the inode dialects
// (` : 1340007 : 254:3`). The inode is the number as unsigned: the kernel
// prints it signed in frames and unsigned in mapping events.
func InodeIdentifier(inode uint64, major, minor uint32) Identifier {
	return Identifier{tagInode | uint64(major)<<32 | uint64(minor), inode}
}

// IsZero reports whether there is no identifier at all.
func (id Identifier) IsZero() bool { return id.hi == 0 }

// IsInode reports whether it is an inode and device, not a hash.
func (id Identifier) IsInode() bool { return id.hi&tagInode != 0 }

// Inode returns the inode and the device, in the kernel's numbers, if IsInode.
func (id Identifier) Inode() (inode uint64, major, minor uint32) {
	return id.lo, uint32(id.hi &^ tagInode >> 32), uint32(id.hi)
}

// Hash64 returns the hash, if the identifier is one.
func (id Identifier) Hash64() (hash uint64, ok bool) { return id.lo, id.hi == tagHash }

// Append writes the identifier as the kernel prints it in a frame.
func (id Identifier) Append(b []byte) []byte {
	if !id.IsInode() {
		b = append(b, "0x"...)
		return strconv.AppendUint(b, id.lo, 16)
	}
	b = strconv.AppendInt(b, int64(id.lo), 10)
	b = append(b, " : "...)
	b = strconv.AppendUint(b, id.hi&^tagInode>>32, 10)
	b = append(b, ':')
	return strconv.AppendUint(b, id.hi&(1<<32-1), 10)
}

// Hash mixes the identifier for use in a table.
func (id Identifier) Hash() uint64 {
	return (id.lo ^ id.hi*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93
}

// NoFile reports whether the identifier says that the address lies in a VMA
// without a file: hash 0, inode 0. (Seen in the captures: anonymous memory,
// heap, stack, vDSO.)
func (id Identifier) NoFile() bool { return id.hi != 0 && id.lo == 0 }

// NoVMA reports whether the identifier says that no VMA holds the address:
// hash 0xffffffff (32 bits, or 64), inode -1.
func (id Identifier) NoVMA() bool {
	return id.hi != 0 && (id.lo == ^uint64(0) || id.hi == tagHash && id.lo == 0xffffffff)
}

// Form is how a frame is written.
type Form uint8

const (
	// FormPlain has an address and nothing else (stock kernels, D0, D1).
	FormPlain Form = iota + 1
	// FormIdentifier has a file offset and an identifier (D2 to D4).
	FormIdentifier
	// FormResolved has a file offset, path and perhaps build ID (D5, and our
	// own output).
	FormResolved
	// FormObject has a path and an offset in the VMA (option sym-userobj).
	FormObject
	// FormUnresolved is a frame that an earlier run of ustack gave up on; the
	// reason follows it.
	FormUnresolved
	// FormUnknown is a frame line in no known form.
	FormUnknown
	// FormCut is a frame line that ends before its time.
	FormCut
	// FormBuildID has a file offset and the build ID of the file, and no path: an entry
	// of a BPF stack map (struct bpf_stack_build_id in include/uapi/linux/bpf.h).
	FormBuildID
)

// Frame is one line of a stack.
type Frame struct {
	ID Identifier
	// Addr is the number of the frame: a virtual address (FormPlain of stock
	// kernels and D0), a file offset (where there is an identifier, a build ID or a
	// path), an offset in the VMA (FormObject). Set only if the source was
	// asked for addresses, see Address.
	Addr uint64
	// Off is where the line begins in Batch.Text, End where it ends (the
	// line feed is not part of it), AddrEnd where the kernel's address ends, or
	// the function's name that ustack has put after it.
	Off, End uint32
	AddrEnd  uint32
	Form     Form
	HasAddr  bool
	noted    noted
	mark     Mark
}

// Mark is how an earlier run of ustack found the file of a frame, if it was not
// sure of it.
type Mark uint8

const (
	// NoMark: it was sure, or the kernel itself has written the file.
	NoMark Mark = iota
	// MarkLate: by mappings of another time.
	MarkLate
	// MarkClaimed: by what the kernel announced because of another stack.
	MarkClaimed
	// MarkInferred: by exclusion.
	MarkInferred

	markCount
)

// Weaker returns the less certain one of two marks.
func Weaker(a, b Mark) Mark {
	rank := [MarkCount]int{NoMark: 0, MarkInferred: 1, MarkLate: 2, MarkClaimed: 3}
	if rank[a] > rank[b] {
		return a
	}
	return b
}

// MarkCount is the number of marks.
const MarkCount = int(markCount)

// Template is the frames of a stack that has been seen before, letter by letter. A
// trace has few different stacks, each many times, so a source that recognises them
// saves its consumers the work on the frames. A Template does not change once it is in
// a batch.
type Template struct {
	// Text is the frame lines, Frames point into it.
	Text   []byte
	Frames []Frame
	// Settled: all its stacks are of one process, and from a time in which nothing
	// changed that it had mapped. So an address is the same place in all of them.
	Settled bool
	// Memo is for the consumer; a source does not touch it.
	Memo any
}

// MappingEvent is the kernel's claim that an identifier is a file.
type MappingEvent struct {
	ID Identifier
	// Path and BuildID are the kernel's own words, not escaped; BuildID is what
	// stands between the braces of build_id={…}, nil if there was none.
	Path, BuildID []byte
	// Report: it is one of a report, whose identifiers never mean anything else,
	// and Mark is what the report says of the files of all frames that have it.
	Report bool
	Mark   Mark
	// Bad says why the mapping event is not usable ("" if it is).
	Bad string
}

// Batch is a run of whole records in input order. Its memory belongs to the
// source and is used again once the batch has been given back.
type Batch struct {
	// Text is the kernel's text of the run, without gaps. Text between two Records
	// belongs to events that the consumer did not request. Records with NoText have
	// none.
	Text []byte
	// Escaped: strings in Text are as package escape writes them, so that no
	// string can pass for a record. Otherwise they are as the kernel printed them.
	Escaped       bool
	Records       []Record
	Frames        []Frame
	MappingEvents []MappingEvent
	Templates     []*Template
	// Origins are headers, and Calls system calls, of sources that have them in
	// binary.
	Origins []Origin
	Calls   []syscalls.Event
	// Pos is the offset of Text[0] in its input, Line the number of lines
	// before it. Both count from the beginning of the input, from 0.
	Pos, Line int64
	// Lines is the number of lines of the run, those included that the kernel's text
	// of records with NoText has.
	Lines int64
	// Events counts the records of KindEvent, including ones that are not in
	// Records.
	Events int64
	// Early and Late bound the times of the records, in nanoseconds; Late is 0
	// if unknown.
	Early, Late Time
	// Paused says that the input had nothing more to give when the batch was
	// made: a consumer that buffers records should release them.
	Paused bool
	// Heads decodes headers, by Record.Source.
	Heads []HeadDecoder
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.MappingEvents)
	clear(b.Templates)
	*b = Batch{
		Text: b.Text[:0], Records: b.Records[:0], Frames: b.Frames[:0],
		MappingEvents: b.MappingEvents[:0], Heads: b.Heads[:0], Templates: b.Templates[:0],
		Origins: b.Origins[:0], Calls: b.Calls[:0],
	}
}

// Plain returns a piece of Text as it was before it was escaped.
func (b *Batch) Plain(piece []byte) []byte {
	if b.Escaped {
		return escape.Undo(piece)
	}
	return piece
}

// Raw returns the whole text of a record.
func (b *Batch) Raw(r *Record) []byte { return b.Text[r.Off:r.End] }

// StackFrames returns the frames of a stack record, innermost first, and the
// text that they point into.
func (b *Batch) StackFrames(r *Record) ([]Frame, []byte) {
	if r.Template != 0 {
		s := b.Templates[r.Template-1]
		return s.Frames, s.Text
	}
	return b.Frames[r.Lo:r.Hi], b.Text
}

// AddRecord appends an empty record, to be filled where it is: a whole one would be copied.
func (b *Batch) AddRecord() *Record {
	n := len(b.Records)
	if n < cap(b.Records) {
		b.Records = b.Records[:n+1]
		b.Records[n] = Record{}
	} else {
		b.Records = append(b.Records, Record{})
	}
	return &b.Records[n]
}

// MappingEvent returns the claim of a KindMappingEvent record.
func (b *Batch) MappingEvent(r *Record) *MappingEvent { return &b.MappingEvents[r.Item-1] }

// AddMappingEvent appends what a KindMappingEvent record claims.
func (b *Batch) AddMappingEvent(r *Record, e MappingEvent) {
	b.MappingEvents = append(b.MappingEvents, e)
	r.Item = uint32(len(b.MappingEvents))
}

// Empty reports whether the batch has no line at all.
func (b *Batch) Empty() bool { return len(b.Text) == 0 && b.Lines == 0 }

// LinesOf returns how many lines the kernel's text of a record has.
func (b *Batch) LinesOf(r *Record) int64 {
	if r.Flags&NoText == 0 {
		return int64(bytes.Count(b.Raw(r), []byte{'\n'}))
	}
	frames, _ := b.StackFrames(r)
	lines := 1 + int64(len(frames))
	if r.Flags&Deferred != 0 {
		lines++ // the cookie
	}
	return lines
}

// LineOf returns the number of lines before a record in the input.
func (b *Batch) LineOf(r *Record) int64 {
	n := b.Line + int64(bytes.Count(b.Text[:r.Off], []byte{'\n'}))
	for i := range b.Records {
		other := &b.Records[i]
		if other == r || other.Off > r.Off {
			break
		}
		if other.Flags&NoText != 0 {
			n += b.LinesOf(other)
		}
	}
	return n
}

// Address returns the frame's number, text what the frame points into. Sources of
// text parse it only here.
func (f *Frame) Address(text []byte) uint64 {
	if f.HasAddr {
		return f.Addr
	}
	return ParseAddrText(text[f.Off:f.AddrEnd])
}

// AppendAddrText appends the address text of a frame line as the kernel writes it on
// 64-bit machines, " =>  <00007ff49fdce829>" (seq_print_user_ip and " <%016lx>"
// in kernel/trace/trace_output.c).
func AppendAddrText(b []byte, number uint64) []byte {
	const digits = "0123456789abcdef"
	b = append(b, " =>  <0000000000000000>"...)
	for i := len(b) - 2; number != 0; i-- {
		b[i] = digits[number&15]
		number >>= 4
	}
	return b
}

// ParseAddrText returns the number in a frame's address text, " =>  <00007ff49fdce829>".
func ParseAddrText(addrText []byte) uint64 {
	var v uint64
	for _, c := range AddrDigits(addrText) {
		d, ok := hexDigit(c)
		if !ok {
			break
		}
		v = v<<4 | uint64(d)
	}
	return v
}

// AddrDigits returns the number in an address text as it is written: what stands between
// the angle brackets (an identifier may follow), or what ends the text.
func AddrDigits(addrText []byte) []byte {
	const open = " =>  <"
	if len(addrText) > len(open) && string(addrText[:len(open)]) == open {
		if end := bytes.IndexByte(addrText[len(open):], '>'); end > 0 {
			return addrText[len(open) : len(open)+end]
		}
	}
	end := len(bytes.TrimSuffix(addrText, []byte(">")))
	from := end
	for from > 0 {
		if _, ok := hexDigit(addrText[from-1]); !ok {
			break
		}
		from--
	}
	if from > 0 && !beforeNumber(addrText[from-1]) {
		return nil // the end of another word, or of an escaped character
	}
	return addrText[from:end]
}

// beforeNumber reports whether a number can follow a character: "<5621", " 5621",
// "0x5621".
func beforeNumber(c byte) bool { return c == '<' || c == ' ' || c == 'x' }

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}
