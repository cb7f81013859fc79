package observed

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/input"
	"ustack/tracefs/text"
)

// Dump is the mappings of processes, at one or several times each.
type Dump struct {
	spaces map[int32][]version
	tids   map[int32]int32 // thread to process
	files  map[fileKey]*mapped
	// named are the files by their bare names.
	named map[string][]*mapped
	// byID are the files' generations.
	byID   map[generation]*mapped
	memory map[filemap.Memory]*filemap.Memory
	// vdso is the build ID of the vDSO, the zero ID if unknown.
	vdso elfid.ID
	// first and last are when the dump was begun and ended.
	first, last tracefs.Time
	skew        skew
	// hasty are the processes with a program whose files come and go between readings.
	hasty map[int32]bool
	// seen is when processes had a file mapped.
	seen map[wholeIdent][]stretch
	// pauses are the times in which no process was read.
	pauses pauses
	// leaders are the names of first threads in the trace.
	leaders leaders
	// How many there are of what is bounded.
	versions, mappings, names, ids int
}

// version is what a process had mapped from a time on.
type version struct {
	at tracefs.Time
	// until is when it was last read and had not changed, at least every so often:
	// every is 0 if the dump does not say.
	until, every tracefs.Time
	comm         string    // of the process's first thread, "" if unknown
	exe          string    // its program
	maps         []mapping // by address, if sorted
	sorted       bool
	program      *program // the same one until the process executes another one
	runs         []*run
	// unchanged: it has the files of the version before.
	unchanged bool
	// fixed: programs are at no random place (ADDR_NO_RANDOMIZE).
	fixed bool
	index *index // made when it is needed
}

// mapping has the fields of a mapping that attribution needs.
type mapping struct {
	start, end, offset uint64
	kind               procmap.Kind
	exec, shared       bool
	file               *mapped         // nil if it is none
	run                *run            // that it is of, nil if it is of no file
	memory             *filemap.Memory // what it is instead, or is although the kernel has a file for it
}

// mapped is a file that processes had mapped.
type mapped struct {
	key fileKey
	// name is the path as in /proc/PID/maps.
	name string
	// id is the build ID that the dump gives, or that was learnt.
	id    filemap.BuildID
	hasID bool
	// generations are the files that had this name and inode, as far as their
	// build IDs are known.
	generations []*mapped
	// code is where in it there was code, in any mapping: offsets.
	code []place
	// learned is what the kernel has announced when it looked at a file of this name
	// and number.
	learned learned
	file    *filemap.File // made of what is known, see Mappings.file
	elf     *elfFile      // if it is at hand
}

// generation is one of the files that had a name and inode one after the other.
type generation struct {
	file *mapped
	id   filemap.BuildID
}

type fileKey struct {
	dev   procmap.Dev
	inode uint64
	name  string
}

// Bounds of a dump, which is untrusted input.
const (
	maxDump     = 1 << 30 // bytes of text
	maxVersions = 1 << 20
	maxMappings = 1 << 22
	maxNames    = 64 << 20 // bytes
	maxLine     = 1 << 20
	maxCode     = 16 // ranges of code in a file
	maxReads    = 64 // notes of readings of one version
)

var errTooMuch = errors.New("the dump is too large")

func newDump() *Dump {
	return &Dump{spaces: make(map[int32][]version), tids: make(map[int32]int32), files: make(map[fileKey]*mapped), byID: make(map[generation]*mapped),
		memory: make(map[filemap.Memory]*filemap.Memory), hasty: make(map[int32]bool), seen: make(map[wholeIdent][]stretch),
		leaders: leaders{names: make(map[int32][]naming)}}
}

// Load reads a dump: a tar (plain, gzip or zstd) or a directory of PID.maps and
// tids.txt, or one PID.maps.
func Load(name string) (*Dump, error) {
	d := newDump()
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading mappings: %w", err)
	}
	if info.IsDir() {
		err = d.directory(os.DirFS(name))
	} else {
		err = d.archive(name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading mappings from %s: %w", name, err)
	}
	if len(d.spaces) == 0 {
		return nil, fmt.Errorf("reading mappings from %s: there are none", name)
	}
	d.identify()
	d.order()
	return d, nil
}

func (d *Dump) directory(dir fs.FS) error {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := fs.Stat(dir, e.Name())
		if err != nil || !isMember(e.Name()) || !info.Mode().IsRegular() {
			continue
		}
		f, err := dir.Open(e.Name())
		if err != nil {
			return err
		}
		if err := errors.Join(d.member(e.Name(), f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// changes reports whether any process was read more than once.
func (d *Dump) changes() bool {
	for _, versions := range d.spaces {
		if len(versions) > 1 {
			return true
		}
	}
	return false
}

func isMember(name string) bool {
	return name == "tids.txt" || name == vdsoFile || strings.HasSuffix(name, ".maps")
}

func (d *Dump) archive(name string) error {
	f, err := input.Open(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	limited := &io.LimitedReader{R: f, N: maxDump}
	r := bufio.NewReader(limited)
	if head, _ := r.Peek(len(text.Head)); bytes.HasPrefix(head, []byte("###")) || string(head) == text.Head {
		return d.maps(r, 0)
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil && limited.N == 0 {
			return fmt.Errorf("%w: more than %d bytes", errTooMuch, maxDump)
		}
		if err != nil {
			return err
		}
		if base := path.Base(h.Name); h.Typeflag == tar.TypeReg && isMember(base) {
			if err := d.member(base, t); err != nil {
				return err
			}
		}
	}
}

// member reads one file of a dump.
func (d *Dump) member(name string, r io.Reader) error {
	switch name {
	case "tids.txt":
		return d.threads(r)
	case vdsoFile:
		return d.readVDSO(r)
	}
	pid, err := strconv.ParseInt(strings.TrimSuffix(name, ".maps"), 10, 32)
	if err != nil {
		return nil // some other file
	}
	if err := d.maps(r, int32(pid)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// vdsoFile has the build ID of the vDSO.
const vdsoFile = "vdso.txt"

func (d *Dump) readVDSO(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, 2*elfid.Max+1))
	if id, ok := elfid.Parse(bytes.TrimSuffix(b, []byte("\n"))); ok {
		d.vdso = id
	}
	return err
}

// VDSO is the build ID of the vDSO of the kernel that the dump is of, the zero
// ID if that is unknown.
func (d *Dump) VDSO() elfid.ID { return d.vdso }

// threads reads lines "TID PID".
func (d *Dump) threads(r io.Reader) error {
	s := bufio.NewScanner(r)
	for s.Scan() {
		var tid, pid int32
		if _, err := fmt.Sscan(s.Text(), &tid, &pid); err == nil && tid > 0 && tid <= tracefs.MaxTID {
			d.tids[tid] = pid
		}
	}
	return s.Err()
}

// damaged reports whether a line that is no mapping was to be one: it begins as one.
func damaged(line []byte) bool {
	return len(line) > 0 && (line[0]-'0' <= 9 || line[0]-'a' <= 'f'-'a')
}

// maps reads versions of a process's mappings. Lines that are no mapping are passed over.
// A version with a damaged one is none: what is not known to be there would prove that
// it was not.
func (d *Dump) maps(r io.Reader, pid int32) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	cur := version{}
	ids := map[procmap.FileID]filemap.BuildID{}
	var reads []procmap.Reads
	begun, broken := false, false
	parse := procmap.ParseLine
	flush := func() {
		if begun && !broken {
			d.add(pid, cur, ids, reads)
		}
		reads = reads[:0]
	}
	lines := 0
	for ; s.Scan(); lines++ {
		line := s.Bytes()
		if lines == 0 {
			head, _, err := text.CutHead(append(line[:len(line):len(line)], '\n'), true)
			if err != nil {
				return err
			}
			if head > 0 {
				parse = procmap.ParseSaved
			}
		}
		switch {
		case bytes.HasPrefix(line, []byte("###")):
			head, err := procmap.ParseHead(line)
			if err != nil {
				return err
			}
			flush()
			if d.versions++; d.versions > maxVersions {
				return fmt.Errorf("%w: more than %d versions of processes", errTooMuch, maxVersions)
			}
			begun, broken = true, false
			pid = int32(head.PID)
			clear(ids)
			cur = version{at: tracefs.Time(head.Time), comm: head.Comm, exe: strings.TrimSuffix(head.Exe, " (deleted)")}
		case bytes.HasPrefix(line, []byte("# ")):
			if file, id, ok := procmap.ParseBuildID(line); ok {
				if d.ids++; d.ids > maxMappings {
					return fmt.Errorf("%w: more than %d build IDs", errTooMuch, maxMappings)
				}
				ids[file] = buildID(id)
			} else if n := len(cur.maps) - 1; n >= 0 && procmap.IsOtherVDSO(line) && cur.maps[n].kind == procmap.VDSO {
				cur.maps[n].kind = procmap.Special
			} else if r, ok := procmap.ParseReads(line); ok && len(reads) < maxReads {
				if d.versions++; d.versions > maxVersions {
					return fmt.Errorf("%w: more than %d versions of processes", errTooMuch, maxVersions)
				}
				reads = append(reads, r)
			}
		default:
			begun = true
			m, err := parse(line)
			if err != nil {
				broken = broken || damaged(line)
				continue
			}
			if d.mappings++; d.mappings > maxMappings || d.names > maxNames {
				return fmt.Errorf("%w: more than %d mappings, or %d bytes of names", errTooMuch, maxMappings, maxNames)
			}
			cur.maps = append(cur.maps, d.mapping(&m))
		}
	}
	flush()
	if err := s.Err(); err != nil {
		return fmt.Errorf("line %d: %w", lines+1, err)
	}
	return nil
}

// mapping keeps of a mapping what attribution needs.
func (d *Dump) mapping(m *procmap.Mapping) mapping {
	out := mapping{start: m.Start, end: m.End, offset: m.Offset, kind: m.Kind, exec: m.Perms&procmap.Exec != 0, shared: m.Perms&procmap.Shared != 0}
	if m.Inode == 0 || !m.Kind.HasFile() {
		out.memory = d.anonCode(m.Name, out.exec)
	}
	if m.Inode == 0 {
		return out
	}
	key := fileKey{m.Dev, m.Inode, m.Name}
	out.file = d.files[key]
	if out.file == nil {
		out.file = &mapped{key: key, name: m.Name}
		d.files[key] = out.file
		d.names += len(m.Name)
	}
	if part := (place{m.Offset, m.Offset + (m.End - m.Start)}); out.exec && len(out.file.code) < maxCode && !slices.Contains(out.file.code, part) {
		out.file.code = append(out.file.code, part)
	}
	return out
}

// anonCode is memory without a file.
func (d *Dump) anonCode(name string, exec bool) *filemap.Memory {
	if name == "" {
		name = "[anon]"
	}
	what := filemap.Memory{Name: name, Exec: exec}
	m := d.memory[what]
	if m == nil {
		m = &what
		d.memory[what] = m
		d.names += len(name)
	}
	return m
}

// identify gives files that had no build ID where they were read the one that
// they had elsewhere, if there was only one.
func (d *Dump) identify() {
	for _, versions := range d.spaces {
		for i := range versions {
			for k := range versions[i].maps {
				m := &versions[i].maps[k]
				if m.file != nil && len(m.file.generations) == 1 {
					m.file = m.file.generations[0]
				}
			}
		}
	}
}
