package perfdata

import (
	"bytes"
	"reflect"
	"testing"

	"ustack/tracefs/perfdata/perfdatatest"
)

// TestBuildIDs: perf's list of build IDs is read, from the section after the data and from a pipe, of
// whatever length they are; what is cut or has no name is left out.
func TestBuildIDs(t *testing.T) {
	long, short := bytes.Repeat([]byte{0xab}, 20), bytes.Repeat([]byte{0xcd}, 16)
	want := []BuildID{{PID: -1, Name: "/bin/x", ID: long}, {PID: 77, Name: "/lib/md5.so", ID: short}, {PID: -1, Name: "[vdso]", ID: long}}
	for _, big := range []bool{false, true} {
		m := newModel(1, big)
		m.fill(2)
		entry := func(misc uint16, pid int32, id []byte, name string) []byte {
			var room [24]byte // the ID, its size, and three bytes that are not used
			copy(room[:], id)
			room[20] = byte(len(id))
			return m.Record(recordBuildID, misc, pid, room[:], perfdatatest.Name(name))
		}
		entries := [][]byte{entry(bitBuildIDSize, -1, long, "/bin/x"), entry(bitBuildIDSize, 77, short, "/lib/md5.so"),
			entry(bitBuildIDSize, -1, long, ""), entry(0, -1, long, "[vdso]")}
		section := bytes.Join(entries, nil)
		m.Features[featureBuildID] = append(section, section[:20]...) // the last one is cut
		file, pipe := m.Write(), m.File
		pipe.Features = map[int][]byte{featureTracingData: m.Features[featureTracingData]}
		pipe.Records = append(entries, m.Records...)
		for name, data := range map[string][]byte{"file": file, "pipe": pipe.Pipe()} {
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(f.BuildIDs, want) {
				t.Errorf("%s, big %v: %+v, want %+v", name, big, f.BuildIDs, want)
			}
		}
	}
}
