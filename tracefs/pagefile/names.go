package pagefile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"sort"
	"strings"

	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/sorting"
)

// A chunk of comms is a list of time uint64, thread uint32, length uint8, name. It is
// what a thread was called from that time on; the length unknownComm is for unknown.
const (
	commHead    = 13
	unknownComm = 0xff
	maxComm     = 15 // TASK_COMM_LEN without its NUL
)

// called is how a thread was called from a time on.
type called struct {
	from  uint64
	comm  string
	known bool
}

// namer notes what threads were called when their records were made.
//
// Invariant: of what it has noted, the last name from before the time of a record that
// was seen is the one that the source of names gave for that time.
type namer struct {
	names tracebinary.Names
	buf   []byte // noted, not written yet
	sure  int    // of these, what is confirmed
	last  map[int32]called
	cache [256]cachedComm
}

// cachedComm is a thread whose name needs no note for times from from up to until.
type cachedComm struct {
	tid         int32
	from, until uint64
}

// maxNoted bounds the threads in last. The names of others are noted again and again.
const maxNoted = 1 << 16

func newNamer(names tracebinary.Names) *namer {
	return &namer{names: names, last: make(map[int32]called)}
}

// record notes the name of the thread of a record.
func (n *namer) record(tid int32, at uint64) {
	c := &n.cache[uint8(tid)]
	if c.tid == tid && at >= c.from && at < c.until || tid <= 0 {
		return
	}
	comm, until, ok := n.names.Comm(tid, at)
	*c = cachedComm{tid, at, until}
	now := called{at, comm[:min(len(comm), maxComm)], ok}
	last, seen := n.last[tid]
	if seen && at >= last.from && last.comm == now.comm && last.known == now.known {
		return
	}
	if (seen || len(n.last) < maxNoted) && at >= last.from {
		n.last[tid] = called{at, strings.Clone(now.comm), ok}
	}
	n.note(tid, &now)
}

// forget is for when records from here on are later than all before.
func (n *namer) forget() {
	clear(n.last)
	n.cache = [256]cachedComm{}
}

func (n *namer) note(tid int32, c *called) {
	n.buf = binary.LittleEndian.AppendUint64(n.buf, c.from)
	n.buf = binary.LittleEndian.AppendUint32(n.buf, uint32(tid))
	if !c.known {
		n.buf = append(n.buf, unknownComm)
		return
	}
	n.buf = append(append(n.buf, byte(len(c.comm))), c.comm...)
}

// names are what threads were called. It implements binary.Names.
type names struct {
	byTID map[int32][]called
	// damaged: some are missing, so none is sure.
	damaged bool
}

var errComms = errors.New("no list of what threads were called")

// parse adds the names of a chunk.
func (n *names) parse(b []byte) error {
	for len(b) > 0 {
		if len(b) < commHead {
			return errComms
		}
		at, tid, size := binary.LittleEndian.Uint64(b), int32(binary.LittleEndian.Uint32(b[8:])), int(b[12])
		b = b[commHead:]
		c := called{from: at, known: size != unknownComm}
		if c.known {
			if size > maxComm || size > len(b) {
				return errComms
			}
			c.comm, b = string(b[:size]), b[size:]
		}
		n.byTID[tid] = append(n.byTID[tid], c)
	}
	return nil
}

// order ends the parsing.
func (n *names) order() {
	for _, list := range n.byTID {
		sorting.StableFunc(list, func(a, b called) int { return cmp.Compare(a.from, b.from) })
	}
}

// Comm implements binary.Names.
func (n *names) Comm(tid int32, at uint64) (comm string, until uint64, ok bool) {
	until = 1<<64 - 1
	if n.damaged {
		return "", until, false
	}
	list := n.byTID[tid]
	next := sort.Search(len(list), func(i int) bool { return list[i].from > at })
	if next < len(list) {
		until = list[next].from
	}
	if next == 0 {
		return "", until, false
	}
	return list[next-1].comm, until, list[next-1].known
}
