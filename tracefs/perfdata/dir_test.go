package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs"
	bin "ustack/tracefs/binary"
	"ustack/tracefs/perf"
	"ustack/tracefs/perfdata/perfdatatest"
)

// shard writes the records of a model to a directory, as perf record --threads does: what perf
// has made itself to the first file, and all others anyhow to the files of some threads, without
// rounds.
func shard(t *testing.T, m *model, rng *rand.Rand, compress bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := make([]perfdatatest.File, 1+rng.IntN(5))
	head := m.File
	head.Records = nil
	head.Features[featureDirFormat] = m.Bytes(uint64(dirVersion))
	for _, r := range m.Records {
		switch f := &files[rng.IntN(len(files))]; m.typeOf(r) {
		case perfdatatest.Round:
		case uint32(perfSample):
			at := len(f.Records)
			if at > 0 && rng.IntN(3) == 0 { // a thread with the rings of several CPUs
				at = rng.IntN(at)
			}
			f.Records = append(f.Records[:at:at], append([][]byte{r}, f.Records[at:]...)...)
		default:
			head.Records = append(head.Records, r)
		}
	}
	put(t, dir, dirHead, head.Write())
	for i := range files {
		files[i].Big = m.Big
		f := &files[i]
		if compress {
			var err error
			if f, err = f.Compress(perfdatatest.Compressed, 300); err != nil {
				t.Fatal(err)
			}
		}
		put(t, dir, fmt.Sprint(dirParts, i), bytes.Join(f.Records, nil))
	}
	return dir
}

const perfSample = 9

func (m *model) typeOf(r []byte) uint32 {
	if m.Big {
		return binary.BigEndian.Uint32(r)
	}
	return binary.LittleEndian.Uint32(r)
}

func put(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// readDir returns the text of a directory, and what the reading ends with.
func readDir(t *testing.T, dir string, block int) (string, error) {
	t.Helper()
	if !IsDir(dir) {
		t.Fatal("not taken for a directory of perf")
	}
	f, done, err := OpenDir(dir)
	defer done()
	if err != nil {
		return "", err
	}
	for _, p := range f.parts {
		p.block = block
	}
	s := f.Source(bin.Options{Events: true, NoTemplates: true}, nil)
	var b tracefs.Batch
	var out strings.Builder
	for {
		err := s.Next(&b)
		out.Write(b.Text)
		if err != nil {
			if s.in.queue.unordered > 0 {
				t.Errorf("%d records out of order", s.in.queue.unordered)
			}
			return out.String(), err
		}
	}
}

// TestDirectory: however the records are spread over files, they come in order of time.
func TestDirectory(t *testing.T) {
	for seed := range uint64(30) {
		m := newModel(seed, seed%2 == 1)
		m.fill(40)
		rng := rand.New(rand.NewPCG(seed, 5))
		dir := shard(t, m, rng, seed%3 == 0)
		got, err := readDir(t, dir, 1+rng.IntN(30))
		if want := strings.Join(m.lines, "\n") + "\n"; got != want || !errors.Is(err, io.EOF) {
			t.Fatalf("seed %d: %v\n%s\nwant:\n%s", seed, err, got, want)
		}
	}
}

// TestDirectoryCut: a file that ends inside a record is named, and the others are read.
func TestDirectoryCut(t *testing.T) {
	m := newModel(4, false)
	m.fill(40)
	dir := shard(t, m, rand.New(rand.NewPCG(1, 6)), false)
	whole, err := readDir(t, dir, 8)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "data.0")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "data.0", b[:len(b)-3])
	got, err := readDir(t, dir, 8)
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"data.0"`) || !strings.Contains(err.Error(), "byte ") {
		t.Errorf("the error is %v", err)
	}
	const stack = "<user stack trace>"
	if n := strings.Count(got, stack); n != strings.Count(whole, stack)-1 {
		t.Errorf("%d samples of %d", n, strings.Count(whole, stack))
	}
}

// TestDirectoryStrange: links and pipes in a directory are no files of it, and an unknown version
// is an error.
func TestDirectoryStrange(t *testing.T) {
	m := newModel(4, false)
	m.fill(4)
	dir := shard(t, m, rand.New(rand.NewPCG(1, 7)), false)
	whole, err := readDir(t, dir, 8)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/exe", filepath.Join(dir, "data.link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data.dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := readDir(t, dir, 8); got != whole || !errors.Is(err, io.EOF) {
		t.Errorf("with a link: %v", err)
	}
	m.Features[featureDirFormat] = m.Bytes(uint64(dirVersion + 1))
	put(t, dir, dirHead, m.Write())
	if _, err := readDir(t, dir, 8); !errors.Is(err, ErrFormat) {
		t.Errorf("another version: %v", err)
	}
	for _, other := range []string{t.TempDir(), "testdata", filepath.Join(dir, dirHead)} {
		if IsDir(other) {
			t.Errorf("%s is taken for a directory of perf", other)
		}
	}
}

// TestTimeConv: times become the time stamp counter that the kernel made them of.
func TestTimeConv(t *testing.T) {
	const shift, mult, zero = 31, 1022611260, ^uint64(41) // a CPU of 2.1 GHz, whose clock began later
	perfTime := func(tsc uint64) uint64 {                 // arch/x86: (quot * mult) + ((rem * mult) >> shift)
		return zero + tsc>>shift*mult + tsc&(1<<shift-1)*mult>>shift
	}
	c := timeConv{shift, mult, zero}
	rng := rand.New(rand.NewPCG(1, 8))
	for range 10000 {
		tsc := 1000 + rng.Uint64N(1<<56)
		if got := c.ticks(perfTime(tsc)); got > tsc || tsc-got > 3 { // a nanosecond has 2.1 ticks
			t.Fatalf("%d ticks, not %d", got, tsc)
		}
	}
	for _, caps := range []string{"\x01\x00", "\x00\x00", "\x01\x01", ""} {
		m := newModel(4, false)
		m.Add(recordTimeConv, 0, uint64(shift), uint64(mult), zero, uint64(0), uint64(0), caps)
		m.fill(4)
		data := m.Write()
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.UseClock("boot"); err == nil {
			t.Error("converted to a clock of which nothing is known")
		}
		err = f.UseClock(ClockTSC)
		if counts := caps == "\x01\x00"; (err == nil) != counts {
			t.Fatalf("caps %q: %v", caps, err)
		}
		if err != nil {
			continue
		}
		times := 0
		f.SideBand(func(r *perf.Record) {})
		s := f.Source(bin.Options{Events: true}, nil)
		var b tracefs.Batch
		for err == nil {
			err = s.Next(&b)
			for i := range b.Records {
				if b.Headed(&b.Records[i]) {
					times++
					if at := b.Time(&b.Records[i]); perfTime(uint64(at)) > 4100000 || at < 1000 {
						t.Fatalf("time %d", at)
					}
				}
			}
		}
		if times == 0 || f.Clock() != ClockTSC {
			t.Errorf("%d times by %q", times, f.Clock())
		}
	}
}
