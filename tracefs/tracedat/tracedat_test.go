package tracedat

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs"
	ring "ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

func open(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// view is what trace-cmd and we must agree on.
type view struct {
	Kind   tracefs.Kind
	TID    int32
	CPU    int32
	Time   tracefs.Time
	Comm   string
	Name   string
	Args   string
	Cookie uint64
	Path   string
	Frames []frame
}

type frame struct {
	ID   tracefs.Identifier
	Addr uint64
}

var padding = regexp.MustCompile(`\b(?:0x)?0*([0-9a-f])`)

// viewsOf leaves out of arguments how numbers are written.
func viewsOf(b *tracefs.Batch) (out []view) {
	for i := range b.Records {
		r := &b.Records[i]
		if r.Kind == tracefs.KindNote {
			continue
		}
		h := b.Head(r)
		v := view{Kind: r.Kind, TID: r.TID, CPU: r.CPU, Time: b.Time(r), Comm: string(h.Comm)}
		switch r.Kind {
		case tracefs.KindCookie:
			v.Cookie = r.Value
		case tracefs.KindEvent:
			name, args := text.SplitEvent(b.Text[r.Body:r.End])
			v.Name, v.Args = name.Prefix+string(name.Name), string(args)
			if strings.HasPrefix(v.Name, "sys_") {
				v.Args = padding.ReplaceAllString(v.Args, "$1")
			}
		case tracefs.KindMappingEvent:
			v.Path = string(b.MappingEvent(r).Path)
		case tracefs.KindStack:
			v.Cookie = r.Value
			frames, text := b.StackFrames(r)
			for k := range frames {
				addr := frames[k].Address(text)
				if addr == 0 {
					break // the kernel ends a stack there, trace-cmd has the whole array
				}
				v.Frames = append(v.Frames, frame{frames[k].ID, addr})
			}
		}
		out = append(out, v)
	}
	return out
}

func read(t testing.TB, s *ring.Source) (text []byte, views []view, err error) {
	t.Helper()
	var b tracefs.Batch
	for {
		err := s.Next(&b)
		text = append(text, b.Text...)
		views = append(views, viewsOf(&b)...)
		if err == io.EOF {
			return text, views, nil
		}
		if err != nil {
			return text, views, err
		}
	}
}

// TestReport: a trace.dat gives what trace-cmd report -N makes of it.
func TestReport(t *testing.T) {
	for _, name := range []string{"hash", "inode", "stock"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".dat")
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, data)
			_, got, err := read(t, f.Source(&f.Buffers[0], ring.Options{Events: true}, nil))
			if err != nil {
				t.Fatal(err)
			}
			b := tracefs.Batch{Text: capturetest.Read(t, "testdata/"+name+".report.zst")}
			s := text.NewScanner()
			s.Events = true
			if _, err := s.Scan(&b, text.MoreNever); err != nil {
				t.Fatal(err)
			}
			want := viewsOf(&b)
			if len(got) != len(want) || len(want) < 10_000 {
				t.Fatalf("%d records, trace-cmd has %d", len(got), len(want))
			}
			for i := range want {
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("record %d is\n%+v, trace-cmd has\n%+v", i, got[i], want[i])
				}
			}
		})
	}
}

// TestVersion6: trace-cmd convert has made a version 6 file of a version 7 one.
func TestVersion6(t *testing.T) {
	seven, err := os.ReadFile("testdata/hash.dat")
	if err != nil {
		t.Fatal(err)
	}
	f6, f7 := open(t, capturetest.Read(t, "testdata/hash.v6.dat.zst")), open(t, seven)
	if f6.Version != 6 || f7.Version != 7 {
		t.Errorf("versions %d and %d", f6.Version, f7.Version)
	}
	old, _, err := read(t, f6.Source(&f6.Buffers[0], ring.Options{}, nil))
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := read(t, f7.Source(&f7.Buffers[0], ring.Options{}, nil))
	if err != nil || !bytes.Equal(old, now) || len(now) < 1<<20 {
		t.Errorf("%d bytes of version 6, %d of version 7, error %v", len(old), len(now), err)
	}
}

// TestTruncated: what is before the end of a file that was cut is read, and the
// error has a place.
func TestTruncated(t *testing.T) {
	data := capturetest.Read(t, "testdata/hash.v6.dat.zst")
	whole := open(t, data)
	for _, keep := range []int{4, 20, 300, 5000, 1 << 19, len(data) - 300_000, len(data) - 5000} {
		t.Run(strconv.Itoa(keep), func(t *testing.T) {
			part := data[:keep]
			f, err := Open(bytes.NewReader(part), int64(keep))
			if f == nil {
				if err == nil || keep > len(data)/2 {
					t.Fatalf("error %v", err)
				}
				return
			}
			_, got, rerr := read(t, f.Source(&f.Buffers[0], ring.Options{Events: true}, nil))
			_, all, _ := read(t, whole.Source(&whole.Buffers[0], ring.Options{Events: true}, nil))
			if rerr == nil || !strings.Contains(rerr.Error(), " of CPU 3: ") {
				t.Errorf("error %v, then %v", err, rerr)
			}
			cpus := make(map[int32]int)
			for _, v := range got {
				cpus[v.CPU]++
			}
			if len(got) < len(all)/2 || len(got) >= len(all)+2 || cpus[0] == 0 {
				t.Errorf("%d records of %d, by CPU %v", len(got), len(all), cpus)
			}
		})
	}
}

// FuzzOpen reads everything that a hostile file says it has.
func FuzzOpen(f *testing.F) {
	for _, x := range samples(f) {
		f.Add(x)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, _ := Open(bytes.NewReader(data), int64(len(data)))
		if file == nil {
			return
		}
		_, _ = file.Processes()
		var b tracefs.Batch
		for i := range file.Buffers {
			s := file.Source(&file.Buffers[i], ring.Options{Events: true}, nil)
			for n := 0; n < 8 && s.Next(&b) == nil; n++ {
				for k := range b.Records {
					b.Head(&b.Records[k])
				}
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	data, err := os.ReadFile("testdata/hash.dat")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f := open(b, data)
		s := f.Source(&f.Buffers[0], ring.Options{}, nil)
		var batch tracefs.Batch
		for err := error(nil); err == nil; {
			err = s.Next(&batch)
		}
	}
	b.ReportMetric(float64(b.N)*17431/b.Elapsed().Seconds(), "records/s")
}
