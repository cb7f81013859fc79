package main

// The reference model: a naive reading of what `ustack replay` has to print.
//
// It keeps the whole capture in memory, walks it several times, and searches
// lists from end to end. It shares no code with the program, so that the two
// can only agree by being right about the same rules.

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refKind says what a record is to the model. Most records are refText: they
// are copied and never looked at.
type refKind int

const (
	refText     refKind = iota // an event, a comment line, a marker
	refLost                    // CPU:n [LOST n EVENTS]
	refCookie                  // cookie=…, a promise of a stack
	refDeferred                // <user stack unwind> and its frames
	refStock                   // <user stack trace> and its frames
	refAnnounce                // file_map:, file_cache: or inode_cache:
)

// refRecord is one thing the kernel wrote, with the text it was written as.
type refRecord struct {
	kind    refKind
	line    int    // number of its first line in its file, from 1
	text    string // all bytes, its line feed included
	body    string // text after the time, "" when there is no header
	tid     int
	cpu     int
	time    int64 // microseconds, or ticks of a counting clock
	timed   bool
	cookie  uint64
	cut     bool // the last frame lacks its end and its line feed
	frames  []*refFrame
	binding *refBinding   // of a mapping event
	torn    []refID       // announced after a loss, as other files than before
	early   []*refBinding // announced before it, because of it
}

// refFile is the file a mapping event names. Two files are the same if both
// strings are.
type refFile struct {
	path  string
	build string // "{0x1,…}" as printed, "" when the mapping event had none
}

// refID identifies a file within one capture.
type refID struct {
	inode        bool // else a hash
	n            uint64
	major, minor uint64 // of an inode
}

// refBinding is one mapping event: from which record on the identifier is this
// file, which record said so, and which stack asked for it (nil: none known).
// Positions are indices into the merged list of records.
type refBinding struct {
	id       refID
	file     refFile
	from, at int
	owner    *refRecord
}

// refFrame is one frame line and what became of it: a file or a reason.
type refFrame struct {
	line   int
	text   string // the kernel's own line, without its line feed
	addr   uint64
	hex    string // the address as printed
	suffix string // the identifier as printed, "" when there is none
	id     refID
	hasID  bool
	cut    bool // ended by the next record, not by a line feed
	object bool // /path[+0x12], the address is an offset within a mapping
	file   refFile
	// claimed: announced because of another stack.
	claimed bool
	reason  string // "" when resolved
}

// refResult is the model's answer for one replay.
type refResult struct {
	text    string
	records []*refRecord
	frames  []*refFrame // in the order of the output
}

// refReplay says what a replay of the files, given as their texts in the order
// of the arguments, has to print.
func refReplay(texts ...string) refResult {
	var files [][]*refRecord
	for _, text := range texts {
		files = append(files, refSplit(text))
	}
	records := refMerge(files)
	bindings := refBind(records)
	virtual := refVirtual(records)

	res := refResult{records: records}
	var out strings.Builder
	for pos, r := range records {
		for _, f := range r.frames {
			refResolve(records, bindings, pos, f, virtual)
			res.frames = append(res.frames, f)
		}
		refPrint(&out, r)
	}
	res.text = out.String()
	return res
}

// ---------------------------------------------------------------------------
// Records

// refHeader matches a line from byte 16 on: pid, thread group, CPU, flags,
// time. The 16 bytes before are the padded name of the task and may hold
// anything, so no expression is let near them.
var refHeader = regexp.MustCompile(`^-(\d+) +(?:\((?: *\d+|-+)\) )?\[(\d{3,})\](?: \S{5})? +(\d+)(?:\.(\d{6}))?: `)

var (
	refLostLine   = regexp.MustCompile(`^CPU:(\d+) \[LOST (?:\d+ )?EVENTS\]$`)
	refBufferLine = regexp.MustCompile(`^##### CPU \d+ buffer started ####$`)
	// refEntries is the head of a trace file: the buffer held fewer records
	// than were written, so the oldest are gone.
	refEntries    = regexp.MustCompile(`^# entries-in-buffer/entries-written: (\d+)/(\d+) `)
	refCookieBody = regexp.MustCompile(`^cookie=([0-9a-f]+)$`)
)

// refSplit cuts a capture into records. Lines that start no record belong to
// the one before them: frames, and the tails of names, paths and markers that
// hold a line feed.
func refSplit(data string) []*refRecord {
	var records []*refRecord
	var cur *refRecord // nil: the next line is on its own whatever it is
	line := 1
	for pos := 0; pos < len(data); {
		end := refLineEnd(data, pos)
		next, isStart := refStart(data, pos)
		switch {
		case isStart:
			// The first 16 bytes are the name; a line feed there ends nothing.
			end = refLineEnd(data, pos+16)
			records = append(records, next)
			cur = next
		case refIsAlone(data[pos:end], len(records) == 0 || !records[len(records)-1].timed):
			records = append(records, &refRecord{})
			cur = nil
		case cur == nil:
			records = append(records, &refRecord{})
		default:
			if k := refGlue(data, pos, cur); k > 0 {
				end = pos + k
				cur.cut = true
			}
		}
		last := records[len(records)-1]
		if last.line == 0 {
			last.line = line
		}
		last.text += data[pos:end]
		line += strings.Count(data[pos:end], "\n")
		pos = end
	}
	for _, r := range records {
		refClassify(r)
	}
	return records
}

// refStart reads the record header at pos, if there is one. Byte 16 decides:
// the kernel pads the name of the task to 16 bytes, and a name is shorter. The
// name may hold a line feed, hence no look at lines here.
func refStart(data string, pos int) (*refRecord, bool) {
	if pos+17 > len(data) || data[pos+16] != '-' {
		return nil, false
	}
	rest := data[pos+16 : refLineEnd(data, pos+16)]
	m := refHeader.FindStringSubmatch(rest)
	if m == nil {
		return nil, false
	}
	r := &refRecord{timed: true, body: rest[len(m[0]):]}
	r.tid, _ = strconv.Atoi(m[1])
	r.cpu, _ = strconv.Atoi(m[2])
	r.time, _ = strconv.ParseInt(m[3]+m[4], 10, 64)
	return r, true
}

// refIsAlone reports whether a line is no record and carries no others: losses, the
// notes of the kernel's reader, and the head of a trace file.
func refIsAlone(line string, head bool) bool {
	line = strings.TrimSuffix(line, "\n")
	return refLostLine.MatchString(line) || refBufferLine.MatchString(line) ||
		line == "[LINE TOO BIG]" || head && strings.HasPrefix(line, "#")
}

// refLineEnd is the position after the line feed that ends the line of pos.
func refLineEnd(data string, pos int) int {
	if i := strings.IndexByte(data[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(data)
}

// refCutFrame matches all that can be left of a frame line: the kernel drops
// text in the pieces it prints it in.
var refCutFrame = regexp.MustCompile(`^ => (?: <[0-9a-f]{8,16}>(?: : (?:0x[0-9a-f]+|-?\d+ : \d+:\d+))?)?$`)

// refGlue finds where, in the frame line at pos, the next record begins
// because the line was cut. It returns 0 if the line is whole.
func refGlue(data string, pos int, cur *refRecord) int {
	if !strings.HasPrefix(cur.body, "<user stack ") {
		return 0
	}
	line := strings.TrimSuffix(data[pos:refLineEnd(data, pos)], "\n")
	for k := 4; k < len(line); k++ {
		_, ok := refStart(data, pos+k)
		if (ok || refLostLine.MatchString(line[k:])) && refCutFrame.MatchString(line[:k]) {
			return k
		}
	}
	return 0
}

// refClassify reads the body of a record and so finds its kind.
func refClassify(r *refRecord) {
	if m := refLostLine.FindStringSubmatch(strings.TrimSuffix(r.text, "\n")); m != nil {
		r.kind = refLost
		r.cpu, _ = strconv.Atoi(m[1])
		return
	}
	if m := refEntries.FindStringSubmatch(r.text); m != nil && m[1] != m[2] {
		r.kind, r.cpu = refLost, -1
		return
	}
	if refBufferLine.MatchString(strings.TrimSuffix(r.text, "\n")) {
		r.kind = refLost
		_, _ = fmt.Sscanf(r.text, "##### CPU %d", &r.cpu)
		return
	}
	if !r.timed {
		return
	}
	head := 16 + len(refHeader.FindString(r.text[16:refLineEnd(r.text, 16)]))
	r.body = strings.TrimSuffix(r.text[head:], "\n")
	first, _, _ := strings.Cut(r.body, "\n")
	switch {
	case refCookieBody.MatchString(r.body):
		r.kind = refCookie
		r.cookie = refHex(r.body[len("cookie="):])
	case first == "<user stack trace>":
		r.kind = refStock
		refReadFrames(r)
	case first == "<user stack unwind>" || strings.HasPrefix(first, "<user stack unwind> cookie="):
		r.kind = refDeferred
		refReadFrames(r)
	default:
		if r.binding = refParseMapping(r.body); r.binding != nil {
			r.kind = refAnnounce
		}
	}
}

// refMerge puts the records of several files in one order by their times. The
// order within a file stays; at equal times the earlier argument is first. A
// line without a time goes with the record after it, about which it speaks.
func refMerge(files [][]*refRecord) []*refRecord {
	if len(files) == 1 {
		return files[0]
	}
	for _, records := range files {
		for i := len(records) - 2; i >= 0; i-- {
			if !records[i].timed {
				records[i].time = records[i+1].time
			}
		}
	}
	var merged []*refRecord
	for {
		best := -1
		for i, records := range files {
			if len(records) > 0 && (best < 0 || records[0].time < files[best][0].time) {
				best = i
			}
		}
		if best < 0 {
			return merged
		}
		merged = append(merged, files[best][0])
		files[best] = files[best][1:]
	}
}

// refHex reads hexadecimal digits, with or without 0x.
func refHex(s string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	return n
}

// ---------------------------------------------------------------------------
// Frames and mapping events

var (
	refFrameLine  = regexp.MustCompile(`^ =>  <([0-9a-f]{8,16})>(?: : (0x[0-9a-f]+|-?\d+ : \d+:\d+))?$`)
	refObjectLine = regexp.MustCompile(`^ => (\S.*)\[\+0x([0-9a-f]+)\](?: <[0-9a-f]+>)?$`)
	refInodeID    = regexp.MustCompile(`^(-?\d+) : (\d+):(\d+)$`)
)

// refReadFrames reads the lines under the header of a user stack: the cookie,
// then frames up to the first line that is none.
func refReadFrames(r *refRecord) {
	lines := strings.Split(r.body, "\n")
	n := r.line + strings.Count(r.text[:16], "\n") // of the header's last line
	if _, c, ok := strings.Cut(lines[0], " cookie="); ok {
		r.cookie = refHex(c)
	}
	lines, n = lines[1:], n+1
	if len(lines) > 0 && refCookieBody.MatchString(lines[0]) {
		r.cookie = refHex(lines[0][len("cookie="):])
		lines, n = lines[1:], n+1
	}
	for i, line := range lines {
		cut := r.cut && i == len(lines)-1
		f := refReadFrame(line, r.kind, cut)
		if f == nil {
			return
		}
		f.line = n + i
		r.frames = append(r.frames, f)
	}
}

// refReadFrame reads one frame line, nil if it is none. What the kernel cut is
// a frame too, but nothing in it is to be trusted.
func refReadFrame(line string, kind refKind, cut bool) *refFrame {
	if m := refFrameLine.FindStringSubmatch(line); m != nil {
		f := &refFrame{text: line, hex: m[1], addr: refHex(m[1]), suffix: m[2], cut: cut}
		if !cut && kind == refDeferred {
			f.id, f.hasID = refParseID(m[2])
		}
		return f
	}
	if cut {
		return &refFrame{text: line, cut: true}
	}
	if m := refObjectLine.FindStringSubmatch(line); m != nil && kind == refStock {
		return &refFrame{text: line, addr: refHex(m[2]), object: true}
	}
	return nil
}

// refParseID reads what a frame has in place of a file.
func refParseID(s string) (refID, bool) {
	if strings.HasPrefix(s, "0x") {
		return refID{n: refHex(s)}, true
	}
	if m := refInodeID.FindStringSubmatch(s); m != nil {
		return refID{inode: true, n: refInode(m[1]), major: refDecimal(m[2]), minor: refDecimal(m[3])}, true
	}
	return refID{}, false
}

// refInode reads an inode number. Frames print it signed, mapping events
// unsigned; both are the same 64 bits.
func refInode(s string) uint64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return uint64(n)
	}
	return refDecimal(s)
}

func refDecimal(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

var (
	refMapping = regexp.MustCompile(`(?s)^(?:inode_cache|file_cache|file_map): (inode|hash)=(\w+)(?: dev=\[(\d+):(\d+)\])? path=(.*)$`)
	// refBuild is greedy on purpose: a path may itself hold " build_id={…}",
	// so only the last one, at the end of the record, is the build ID.
	refBuild = regexp.MustCompile(`(?s)^(.*) build_id=(\{(?:0x[0-9a-f]+(?:,0x[0-9a-f]+)*)?\})$`)
)

// refParseMapping reads a mapping event, nil if the body is none. The path is
// neither quoted nor escaped and may hold line feeds.
func refParseMapping(body string) *refBinding {
	m := refMapping.FindStringSubmatch(body)
	if m == nil {
		return nil
	}
	b := &refBinding{file: refFile{path: m[5]}}
	if m[1] == "hash" {
		b.id = refID{n: refHex(m[2])}
	} else {
		b.id = refID{inode: true, n: refInode(m[2]), major: refDecimal(m[3]), minor: refDecimal(m[4])}
	}
	if x := refBuild.FindStringSubmatch(b.file.path); x != nil {
		b.file = refFile{path: x[1], build: x[2]}
	}
	return b
}

// ---------------------------------------------------------------------------
// Which file a frame gets

// refBind finds for every mapping event from where on it holds (rule 1) and
// returns them by identifier, in the order they were made.
func refBind(records []*refRecord) map[refID][]*refBinding {
	bindings := map[refID][]*refBinding{}
	for pos, r := range records {
		if r.kind != refAnnounce {
			continue
		}
		b := r.binding
		b.at, b.from = pos, pos
		s, torn := refOwner(records, pos)
		if s >= 0 && !torn {
			b.from, b.owner = s, records[s]
		}
		for _, x := range bindings[b.id] {
			if torn && x.file != b.file {
				records[s].torn = append(records[s].torn, b.id)
			}
		}
		bindings[b.id] = append(bindings[b.id], b)
		if s < 0 {
			if next := refNext(records, pos); next >= 0 {
				records[next].early = append(records[next].early, b)
			}
		}
	}
	return bindings
}

// refNext finds the stack that a mapping event was made for and that comes after
// it: the task's next one, of the cookie that the task has had since before the
// mapping event, and of which there was no stack. It returns -1 if there is none.
func refNext(records []*refRecord, pos int) int {
	tid, cookie := records[pos].tid, uint64(0)
	for _, r := range records[:pos] {
		switch {
		case r.tid != tid:
		case r.kind == refCookie && r.cookie != 0:
			cookie = r.cookie
		case r.kind == refDeferred && r.cookie == cookie:
			cookie = 0
		}
	}
	for s := pos + 1; s < len(records) && cookie != 0; s++ {
		r := records[s]
		switch {
		case r.tid != tid:
		case r.kind == refCookie && r.cookie != 0 && r.cookie != cookie:
			return -1
		case r.kind == refDeferred:
			if r.cookie == cookie && refUses(r, records[pos].binding.id) {
				return s
			}
			return -1
		}
	}
	return -1
}

// refOwner walks back from a mapping event to the stack it was made for, and
// returns -1 if the task went through another entry into the kernel since. If
// the CPU of the stack lost records it is torn: the owner is unknown.
func refOwner(records []*refRecord, pos int) (owner int, torn bool) {
	a := records[pos]
	s := pos - 1
	for ; s >= 0; s-- {
		if records[s].kind == refDeferred && records[s].tid == a.tid {
			break
		}
	}
	if s < 0 || !refUses(records[s], a.binding.id) {
		return -1, false
	}
	for _, r := range records[s+1 : pos] {
		if r.kind == refCookie && r.tid == a.tid && r.cookie != 0 && r.cookie != records[s].cookie {
			return -1, false
		}
		if r.kind == refLost && r.cpu == records[s].cpu {
			torn = true
		}
	}
	return s, torn
}

// refUses reports whether a stack has a frame with the identifier.
func refUses(r *refRecord, id refID) bool {
	for _, f := range r.frames {
		if f.hasID && f.id == id {
			return true
		}
	}
	return false
}

// refResolve gives frame f of the stack at pos its file or its reason.
func refResolve(records []*refRecord, bindings map[refID][]*refBinding, pos int, f *refFrame, virtual bool) {
	if f.reason = refPlainReason(records[pos].kind, f, virtual); f.reason != "" {
		return
	}
	b, ambiguous := refLookup(bindings[f.id], pos, records[pos])
	for _, x := range records[pos].early {
		if x.id == f.id && !slices.Contains(records[pos].torn, f.id) {
			f.file = x.file
			return
		}
	}
	switch {
	case ambiguous, slices.Contains(records[pos].torn, f.id):
		f.reason = "ambiguous"
	case b != nil && b.from > pos && refLostBetween(records, pos, b.at):
		f.reason = "lost"
	case b != nil:
		f.file, f.claimed = b.file, b.owner != records[pos]
	case refHasLoss(records, pos):
		f.reason = "lost"
	default:
		f.reason = "unannounced"
	}
}

// refPlainReason is the reason of frames that no mapping event could help, ""
// for all others.
func refPlainReason(kind refKind, f *refFrame, virtual bool) string {
	const noFile, noArea32, noArea64 = 0, 0xffffffff, 0xffffffffffffffff
	switch {
	case f.cut:
		return "truncated"
	case f.object && f.addr >= 1<<63:
		return "no-vma"
	case f.object:
		return "vma-offset"
	case kind == refStock:
		return "no-address-space"
	case !f.hasID && virtual:
		return "no-address-space"
	case !f.hasID:
		return "no-identifier"
	case f.id.n == noFile && f.addr < 0x10000:
		return "vdso"
	case f.id.n == noFile:
		return "anonymous"
	case f.id.n == noArea64, !f.id.inode && f.id.n == noArea32:
		return "no-vma"
	}
	return ""
}

// refVirtual guesses what frames without an identifier print: addresses (true)
// or file offsets. Addresses of programs and libraries are far above 4 GiB,
// offsets are below.
func refVirtual(records []*refRecord) bool {
	high, all := 0, 0
	for _, r := range records {
		for _, f := range r.frames {
			if r.kind == refDeferred && !f.hasID && !f.cut {
				all++
				if f.addr >= 1<<32 {
					high++
				}
			}
		}
	}
	return high*2 > all
}

// refLookup applies rules 1 to 3 to the mapping events of one identifier. It
// returns nil if there is none that helps.
func refLookup(bindings []*refBinding, pos int, stack *refRecord) (b *refBinding, ambiguous bool) {
	for _, x := range bindings {
		if x.owner == stack {
			b = x
		}
	}
	if b != nil {
		return b, false // rule 1: the stack's own
	}
	for _, x := range bindings {
		if x.from <= pos && (b == nil || x.from >= b.from) {
			b = x
		}
	}
	if b != nil {
		return b, refNested(bindings, b) // rule 2
	}
	for _, x := range bindings {
		if x.at > pos {
			return x, false // rule 3: the first one to come
		}
	}
	return nil, false
}

// refNested reports whether the claim of b lies within that of another: begun
// later, announced earlier, with another file. Which of the two held after b
// began is unknown.
func refNested(bindings []*refBinding, b *refBinding) bool {
	for _, x := range bindings {
		if x.file != b.file && x.from < b.from && x.at > b.at {
			return true
		}
	}
	return false
}

// refLostBetween reports whether records are missing between two.
func refLostBetween(records []*refRecord, from, to int) bool {
	return slices.ContainsFunc(records[from:to], func(r *refRecord) bool { return r.kind == refLost })
}

// refHasLoss is rule 4: whether a loss can be why a name is missing. Before the
// stack a loss on any CPU can, after it only one on its own.
func refHasLoss(records []*refRecord, pos int) bool {
	for i, r := range records {
		if r.kind == refLost && (i < pos || r.cpu == records[pos].cpu) {
			return true
		}
	}
	return false
}

// ---------------------------------------------------------------------------
// Text

// refPrint writes a record as the output has it.
func refPrint(out *strings.Builder, r *refRecord) {
	if r.kind == refAnnounce {
		return
	}
	if len(r.frames) == 0 {
		out.WriteString(r.text)
		return
	}
	// Frames are the only lines that change, and they follow each other.
	var old, changed strings.Builder
	for _, f := range r.frames {
		end := "\n"
		if f.cut {
			end = ""
		}
		old.WriteString(f.text + end)
		changed.WriteString(refFrameText(f) + "\n")
	}
	head, tail, found := strings.Cut(r.text, old.String())
	if !found { // the capture ends without a line feed
		head, tail, _ = strings.Cut(r.text+"\n", old.String())
		out.WriteString(head + strings.TrimSuffix(changed.String(), "\n") + tail)
		return
	}
	out.WriteString(head + changed.String() + tail)
}

// refFrameText is the line of a frame in the output.
func refFrameText(f *refFrame) string {
	if f.reason != "" {
		return fmt.Sprintf("%s (unresolved: %s)", f.text, f.reason)
	}
	mark := ""
	if f.claimed {
		mark = " (claimed)"
	}
	text := fmt.Sprintf(" =>  <%s>%s : path=%s", f.hex, mark, strings.ReplaceAll(f.file.path, "\n", `\012`))
	if f.file.build != "" {
		text += " build_id=" + f.file.build
	}
	return text
}

// ---------------------------------------------------------------------------
// Specimens: small inputs with the answer written by hand, for rules that the
// captures do not touch. The model is held against them here, the program in
// TestTruthSpecimens.

// refSpecimen is an input and its output.
type refSpecimen struct {
	name     string
	in, want string
}

// refLine writes a record of task tid.
func refLine(tid, cpu, micros int, body string) string {
	return fmt.Sprintf("%16s-%-7d [%03d] ..... %5d.%06d: %s\n", "task", tid, cpu, 1, micros, body)
}

// refStack writes a deferred stack, one line for each frame: the text after
// " => ", which may end with a record that the kernel glued on.
func refStack(tid, cpu, micros int, cookie string, frames ...string) string {
	s := refLine(tid, cpu, micros, "<user stack unwind>") + "cookie=" + cookie + "\n"
	for _, f := range frames {
		s += " => " + strings.TrimSuffix(f, "\n") + "\n"
	}
	return s
}

func refSpecimens() []refSpecimen {
	const (
		x   = " <0000000000001000> : 0xa" // a frame with identifier a
		old = " <0000000000001000> : path=/old build_id={0x1,0x2,0x3,0x4,0x5}"
		neu = " <0000000000001000> : path=/new build_id={0x6,0x7,0x8,0x9,0x0}"

		// claimed: because of another stack
		oldClaim = " <0000000000001000> (claimed) : path=/old build_id={0x1,0x2,0x3,0x4,0x5}"
		newClaim = " <0000000000001000> (claimed) : path=/new build_id={0x6,0x7,0x8,0x9,0x0}"

		announceOld = "file_map: hash=0xa path=/old build_id={0x1,0x2,0x3,0x4,0x5}"
		announceNew = "file_map: hash=0xa path=/new build_id={0x6,0x7,0x8,0x9,0x0}"
	)
	return []refSpecimen{
		{
			"announcement after its stack holds from the stack on",
			refLine(9, 0, 1, announceOld) + refStack(2, 0, 2, "5", x) + refStack(1, 0, 3, "7", x) +
				refLine(1, 0, 4, "cookie=7") + refLine(1, 0, 5, "cookie=0") + refStack(2, 1, 6, "9", x) + refLine(1, 0, 7, announceNew),
			refStack(2, 0, 2, "5", oldClaim) + refStack(1, 0, 3, "7", neu) +
				refLine(1, 0, 4, "cookie=7") + refLine(1, 0, 5, "cookie=0") + refStack(2, 1, 6, "9", newClaim),
		},
		{
			"another entry into the kernel parts stack and announcement",
			refLine(9, 0, 1, announceOld) + refStack(1, 0, 2, "7", x) + refLine(1, 0, 3, "cookie=9") +
				refLine(1, 0, 4, announceNew) + refStack(2, 0, 5, "5", x),
			refStack(1, 0, 2, "7", oldClaim) + refLine(1, 0, 3, "cookie=9") + refStack(2, 0, 5, "5", newClaim),
		},
		{
			"a cookie of another task does not",
			refLine(9, 0, 1, announceOld) + refStack(1, 0, 2, "7", x) + refLine(2, 0, 3, "cookie=9") +
				refLine(1, 0, 4, announceNew),
			refStack(1, 0, 2, "7", neu) + refLine(2, 0, 3, "cookie=9"),
		},
		{
			"a later stack of the task without the identifier parts them",
			refLine(9, 0, 1, announceOld) + refStack(1, 0, 2, "7", x) +
				refStack(1, 0, 3, "7", " <0000000000123000> : 0x0") + refLine(1, 0, 4, announceNew),
			refStack(1, 0, 2, "7", oldClaim) +
				refStack(1, 0, 3, "7", " <0000000000123000> : 0x0 (unresolved: anonymous)"),
		},
		{
			"a loss on the CPU of the stack leaves both possible",
			refLine(9, 0, 1, announceOld) + refStack(1, 2, 2, "7", x) + "CPU:2 [LOST 5 EVENTS]\n" +
				refLine(1, 2, 4, announceNew) + refStack(2, 2, 5, "5", x),
			refStack(1, 2, 2, "7", x+" (unresolved: ambiguous)") + "CPU:2 [LOST 5 EVENTS]\n" + refStack(2, 2, 5, "5", newClaim),
		},
		{
			"a loss on another CPU does not",
			refLine(9, 0, 1, announceOld) + refStack(1, 2, 2, "7", x) + "CPU:3 [LOST EVENTS]\n" +
				refLine(1, 2, 4, announceNew),
			refStack(1, 2, 2, "7", neu) + "CPU:3 [LOST EVENTS]\n",
		},
		{
			"nested claims leave others ambiguous until the next",
			refStack(1, 0, 1, "3", x) + refStack(3, 2, 2, "5", x) + refStack(2, 1, 3, "7", x) + refStack(3, 2, 4, "9", x) +
				refLine(2, 1, 5, announceNew) + refLine(1, 0, 6, announceOld) + refStack(3, 2, 7, "b", x) +
				refLine(9, 3, 8, announceNew) + refStack(3, 2, 9, "d", x),
			refStack(1, 0, 1, "3", old) + refStack(3, 2, 2, "5", oldClaim) + refStack(2, 1, 3, "7", neu) +
				refStack(3, 2, 4, "9", x+" (unresolved: ambiguous)") + refStack(3, 2, 7, "b", x+" (unresolved: ambiguous)") +
				refStack(3, 2, 9, "d", newClaim),
		},
		{
			"nested claims of one file are no contradiction",
			refStack(1, 0, 1, "3", x) + refStack(2, 1, 3, "7", x) + refStack(3, 2, 4, "9", x) +
				refLine(2, 1, 5, announceNew) + refLine(1, 0, 6, announceNew),
			refStack(1, 0, 1, "3", neu) + refStack(2, 1, 3, "7", neu) + refStack(3, 2, 4, "9", newClaim),
		},
		{
			"no binding yet: the first announcement to come",
			refStack(1, 0, 1, "3", x) + refLine(9, 0, 2, announceOld) + refLine(9, 0, 3, announceNew),
			refStack(1, 0, 1, "3", oldClaim),
		},
		{
			"no binding yet, and a loss before the first announcement",
			refStack(1, 0, 1, "3", x) + "CPU:3 [LOST 7 EVENTS]\n" + refLine(9, 0, 2, announceOld) + refStack(1, 0, 3, "5", x),
			refStack(1, 0, 1, "3", x+" (unresolved: lost)") + "CPU:3 [LOST 7 EVENTS]\n" + refStack(1, 0, 3, "5", oldClaim),
		},
		{
			"announcement before its stack, of a cookie that has none",
			refLine(9, 0, 1, announceOld) + refLine(1, 0, 2, "cookie=7") + refLine(1, 0, 3, announceNew) + refLine(1, 0, 4, "cookie=7") +
				refStack(1, 0, 5, "7", x) + refStack(2, 0, 6, "5", x),
			refLine(1, 0, 2, "cookie=7") + refLine(1, 0, 4, "cookie=7") + refStack(1, 0, 5, "7", neu) + refStack(2, 0, 6, "5", newClaim),
		},
		{
			"announcement before the stack of another entry into the kernel",
			refLine(1, 0, 2, "cookie=7") + refLine(1, 0, 3, announceNew) + refLine(1, 0, 4, "cookie=9") + refStack(1, 0, 5, "9", x),
			refLine(1, 0, 2, "cookie=7") + refLine(1, 0, 4, "cookie=9") + refStack(1, 0, 5, "9", newClaim),
		},
		{
			"identifiers that name no file",
			refStack(1, 0, 1, "3", " <0000000000000a10> : 0x0", " <00007f0000001000> : 0x0",
				" <ffffffffff600000> : 0xffffffff", " <ffffffffff600000> : 0xffffffffffffffff",
				" <0000000000000a10> : 0 : 0:0", " <00007f0000001000> : 0 : 0:0", " <ffffffffff600000> : -1 : 0:0", x),
			refStack(1, 0, 1, "3", " <0000000000000a10> : 0x0 (unresolved: vdso)", " <00007f0000001000> : 0x0 (unresolved: anonymous)",
				" <ffffffffff600000> : 0xffffffff (unresolved: no-vma)", " <ffffffffff600000> : 0xffffffffffffffff (unresolved: no-vma)",
				" <0000000000000a10> : 0 : 0:0 (unresolved: vdso)", " <00007f0000001000> : 0 : 0:0 (unresolved: anonymous)",
				" <ffffffffff600000> : -1 : 0:0 (unresolved: no-vma)", x+" (unresolved: unannounced)"),
		},
		{
			"a loss excuses missing names: of any CPU before, of its own after",
			refStack(1, 0, 1, "3", x) + refStack(2, 1, 2, "5", x) + "CPU:1 [LOST 7 EVENTS]\n" + refStack(3, 2, 3, "7", x),
			refStack(1, 0, 1, "3", x+" (unresolved: unannounced)") + refStack(2, 1, 2, "5", x+" (unresolved: lost)") +
				"CPU:1 [LOST 7 EVENTS]\n" + refStack(3, 2, 3, "7", x+" (unresolved: lost)"),
		},
		{
			"same inode number, other device",
			refStack(1, 0, 1, "3", " <0000000000001000> : 12 : 254:0", " <0000000000001000> : 12 : 254:1") +
				refLine(1, 0, 2, "inode_cache: inode=12 dev=[254:1] path=/one") +
				refLine(1, 0, 2, "inode_cache: inode=12 dev=[254:0] path=/zero"),
			refStack(1, 0, 1, "3", " <0000000000001000> : path=/zero", " <0000000000001000> : path=/one"),
		},
		{
			"hostile paths",
			refStack(1, 0, 1, "3", " <0000000000001000> : 0xa", " <0000000000001000> : 0xf4e46cf") +
				refLine(1, 0, 2, "file_cache: hash=0xa path=/a path=/b build_id={0x1}/two\nlines build_id={0x1,0x2,0x3,0x4,0x5}") +
				refLine(1, 0, 2, "file_map: hash=0xf4e46cf path=/gone (deleted) build_id={0x0,0x0,0x0,0x0,0x0}"),
			refStack(1, 0, 1, "3", ` <0000000000001000> : path=/a path=/b build_id={0x1}/two\012lines build_id={0x1,0x2,0x3,0x4,0x5}`,
				" <0000000000001000> : path=/gone (deleted) build_id={0x0,0x0,0x0,0x0,0x0}"),
		},
		{
			"cut frames",
			refStack(1, 0, 1, "3", " <0000000000001000> : 0xa", " <0000000000001000>"+refLine(2, 1, 2, "cookie=5")) +
				refStack(1, 0, 3, "7", " <0000000000001000> : 0xa", refLine(1, 1, 4, announceOld)) +
				refStack(1, 0, 5, "9", refLine(2, 1, 6, "cookie=7")),
			refStack(1, 0, 1, "3", oldClaim, " <0000000000001000> (unresolved: truncated)\n"+refLine(2, 1, 2, "cookie=5")) +
				refStack(1, 0, 3, "7", old, " (unresolved: truncated)") +
				refStack(1, 0, 5, "9", " (unresolved: truncated)\n"+refLine(2, 1, 6, "cookie=7")),
		},
		{
			"frames only directly under a stack",
			refLine(1, 0, 1, announceOld) + refLine(1, 0, 2, "tracing_mark_write: <user stack unwind>\ncookie=3\n => "+x) +
				refLine(1, 0, 3, "tracing_mark_write: two\n => "+x) + refLine(1, 0, 4, "tracing_mark_write: "+announceNew) +
				refLine(1, 0, 5, "<stack trace>\n => do_syscall_64") + refStack(1, 0, 6, "5", x),
			refLine(1, 0, 2, "tracing_mark_write: <user stack unwind>\ncookie=3\n => "+x) +
				refLine(1, 0, 3, "tracing_mark_write: two\n => "+x) + refLine(1, 0, 4, "tracing_mark_write: "+announceNew) +
				refLine(1, 0, 5, "<stack trace>\n => do_syscall_64") + refStack(1, 0, 6, "5", oldClaim),
		},
		{
			"stock stacks",
			refLine(1, 0, 1, "<user stack trace>") + " =>  <00007f0000001000>\n => /tmp/v[+0x27e]\n => /tmp/v[+0xffffaa2dc1a79678]\n",
			refLine(1, 0, 1, "<user stack trace>") + " =>  <00007f0000001000> (unresolved: no-address-space)\n" +
				" => /tmp/v[+0x27e] (unresolved: vma-offset)\n => /tmp/v[+0xffffaa2dc1a79678] (unresolved: no-vma)\n",
		},
		{
			"no identifiers, addresses",
			refStack(1, 0, 1, "7000000000009", " <00007fdbd0d421ca>", " <00005635ece557e7>"),
			refStack(1, 0, 1, "7000000000009", " <00007fdbd0d421ca> (unresolved: no-address-space)",
				" <00005635ece557e7> (unresolved: no-address-space)"),
		},
		{
			"no identifiers, offsets",
			refStack(1, 0, 1, "3000000000009", " <00000000001001ca>", " <000000000000173c>"),
			refStack(1, 0, 1, "3000000000009", " <00000000001001ca> (unresolved: no-identifier)",
				" <000000000000173c> (unresolved: no-identifier)"),
		},
		{
			"task names",
			fmt.Sprintf("%16s-%-7d (%7d) [000]  1173.590424: <user stack unwind>\ncookie=3\n => %s\n", "-5 [001]", 7, 3, x) +
				fmt.Sprintf("%16s-%-7d (-------) [000]  1173.590430: %s\n", "a\nb", 7, announceNew) +
				fmt.Sprintf("%16s-%-7d [000]   12: <user stack unwind>\ncookie=5\n => %s\n", "c\nd: e", 8, x),
			fmt.Sprintf("%16s-%-7d (%7d) [000]  1173.590424: <user stack unwind>\ncookie=3\n => %s\n", "-5 [001]", 7, 3, neu) +
				fmt.Sprintf("%16s-%-7d [000]   12: <user stack unwind>\ncookie=5\n => %s\n", "c\nd: e", 8, newClaim),
		},
	}
}

// TestReference holds the model against the specimens.
func TestReference(t *testing.T) {
	for _, s := range refSpecimens() {
		t.Run(s.name, func(t *testing.T) {
			if got := refReplay(s.in).text; got != s.want {
				t.Errorf("input:\n%s\ngot:\n%s\nwant:\n%s", s.in, got, s.want)
			}
		})
	}
}
