package sideband

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestFiles: without a side band, too, a file that is written has no build ID from then on,
// whether or not its process is asked again, and others keep theirs.
func TestFiles(t *testing.T) {
	if os.Getuid() != 0 {
		skip(t, "links of mappings are root's")
	}
	reader, err := procmap.NewReader(procmap.Options{Filter: procmap.Filter{Perms: procmap.Exec}, IDs: procmap.NewIDs(nil)})
	check(t, err)
	spaces, library := space.New(), mappedLibrary(t)
	now := func() tracefs.Time { return perf.Now(unix.CLOCK_MONOTONIC) }
	f := NewFiles(spaces, reader, unix.CLOCK_MONOTONIC, noWatcher{}, new(Written), nil, nil)
	defer f.Close()
	addrs := make(map[bool]uint64)
	var toWrite *os.File
	for _, written := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "library")
		file, err := newFile(library, path)
		check(t, err)
		defer file.Close()
		giveAway(t, path)
		pass(&Band{clock: unix.CLOCK_MONOTONIC}, 3*coarse)
		since := now()
		addrs[written], toWrite = keptCode(t, path), file
		m := []procmap.Mapping{{Start: addrs[written], End: addrs[written] + page, Kind: procmap.File, Perms: procmap.Read | procmap.Exec,
			Name: path, BuildID: buildID(t, path)}}
		f.Watch(os.Getpid(), &m[0], since)
		spaces.Held(os.Getpid(), m[0].Start, m[0].End, m, since)
	}
	hasID := func(written bool) bool {
		p, ok := spaces.Lookup(os.Getpid(), addrs[written], now())
		if !ok {
			t.Fatalf("nothing is at %#x", addrs[written])
		}
		return !p.Mapping.File.BuildID.IsZero()
	}
	f.Check(now())
	if !hasID(false) || !hasID(true) {
		t.Error("they have no build ID before one is written")
	}
	check(t, writeShared(toWrite, toWrite.Name()))
	f.Check(now())
	if !hasID(false) || hasID(true) {
		t.Errorf("has a build ID: written %v, not written %v", hasID(true), hasID(false))
	}
}
