package perfdata

// Features are sections after the data, by their bits in the header (tools/perf/util/header.h).
const (
	featureTracingData = 1
	featureBuildID     = 2
	featureHost        = 3
	featureRelease     = 4
	featureArch        = 6
	featureCPUs        = 7
	featureCommandLine = 11
	featureEventDesc   = 12
	featureDirFormat   = 24
	featureClockData   = 29
	maxFeature         = 256
)

// maxSection bounds a section: the formats of all events of a kernel have some megabytes.
const maxSection = 64 << 20

// BuildID is an entry of the list of build IDs that perf makes at the end, of the files
// that samples were in: by their names, as the files were then.
type BuildID struct {
	PID  int
	Name string
	ID   []byte // at most 20 bytes
}

// Bounds on what a file can have.
const (
	maxBuildIDs = 1 << 16
	buildIDSize = 20
	maxName     = 4096
)

// bitBuildIDSize is PERF_RECORD_MISC_BUILD_ID_SIZE: the entry says how long the ID is.
const bitBuildIDSize = 1 << 15

// buildIDs reads the entries of the feature (struct perf_record_header_build_id).
func (f *File) buildIDs(b []byte) {
	for len(b) >= headerSize && len(f.BuildIDs) < maxBuildIDs {
		h := f.order.header(b)
		if h.size < headerSize || h.size > len(b) {
			return
		}
		f.buildID(h, b[:h.size])
		b = b[h.size:]
	}
}

// buildID reads one.
func (f *File) buildID(h header, b []byte) {
	const pid, id, name = headerSize, headerSize + 4, headerSize + 28
	if len(b) < name || len(f.BuildIDs) >= maxBuildIDs {
		return
	}
	n := buildIDSize
	if h.misc&bitBuildIDSize != 0 {
		n = min(n, int(b[id+buildIDSize]))
	}
	file := upToNUL(b[name:])
	if len(file) == 0 || len(file) > maxName {
		return
	}
	f.BuildIDs = append(f.BuildIDs, BuildID{PID: int(int32(f.order.u32(b[pid:]))), Name: string(file),
		ID: append([]byte(nil), b[id:id+n]...)})
}

// descriptions reads the names of events (HEADER_EVENT_DESC): their attributes, numbers
// and names.
func (f *File) descriptions(b []byte) {
	r := fields{order: f.order, rest: b}
	n, size := r.word32(), uint64(r.word32())
	if size < minAttr || size > maxAttr {
		return
	}
	for ; n > 0 && !r.bad; n-- {
		r.take(size)
		ids, name := uint64(r.word32()), r.text()
		if list := r.words(ids); !r.bad {
			f.name(list, name)
		}
	}
}

// name notes the name of the event that has one of the numbers.
func (f *File) name(ids []byte, name string) {
	if len(name) > maxName || name == "" {
		return
	}
	if len(ids) < 8 && len(f.events.list) == 1 {
		f.events.list[0].name = name
	}
	for ; len(ids) >= 8; ids = ids[8:] {
		if a := f.events.byID[f.order.u64(ids)]; a != nil {
			a.name = name
		}
	}
}

// feature reads a section.
func (f *File) feature(bit int, b []byte) error {
	r := fields{order: f.order, rest: b}
	switch bit {
	case featureTracingData:
		return f.tracingData(b)
	case featureBuildID:
		f.buildIDs(b)
	case featureHost:
		f.Host = r.text()
	case featureRelease:
		f.Release = r.text()
	case featureArch:
		f.Arch = r.text()
	case featureCPUs:
		f.cpus(&r)
	case featureCommandLine:
		f.commandLine(&r)
	case featureEventDesc:
		f.descriptions(b)
	case featureClockData:
		return f.clockData(b)
	case featureDirFormat:
		if v := r.word64(); v != dirVersion {
			return malformed(0, "version %d of a directory, %d is known", v, dirVersion)
		}
	}
	return nil
}
