package tracedat

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	ring "ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
)

// made is a trace.dat that a test writes: two instances of one kernel.
type made struct {
	version   int
	codec     string
	big       bool
	formats   []string // of system "sys"
	instances []madeInstance
	procMaps  string
}

type madeInstance struct {
	name, clock string
	cpus        [][]byte
}

type maker struct {
	bytes.Buffer
	order binary.ByteOrder
}

func (m *maker) u16(v int)      { var b [2]byte; m.order.PutUint16(b[:], uint16(v)); m.Write(b[:]) }
func (m *maker) u32(v int)      { var b [4]byte; m.order.PutUint32(b[:], uint32(v)); m.Write(b[:]) }
func (m *maker) u64(v int)      { var b [8]byte; m.order.PutUint64(b[:], uint64(v)); m.Write(b[:]) }
func (m *maker) name(s string)  { m.WriteString(s + "\x00") }
func (m *maker) long(s string)  { m.u64(len(s)); m.WriteString(s) }
func (m *maker) short(s string) { m.u32(len(s)); m.WriteString(s) }

func (m *maker) sub() *maker { return &maker{order: m.order} }

const (
	madePage   = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
	madeEvent  = "\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\tdata max type_len  == 28\n"
	madeFormat = "name: %s\nID: %d\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:u32 n;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"n=%%u\", REC->n\n"
)

func (x *made) headers(m *maker) {
	m.name("header_page")
	m.long(madePage)
	m.name("header_event")
	m.long(madeEvent)
}

func (x *made) systems(m *maker) {
	m.u32(1)
	m.name("sys")
	m.u32(len(x.formats))
	for _, f := range x.formats {
		m.long(f)
	}
}

func pack(codec string, data []byte) []byte {
	switch codec {
	case "zlib":
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		w.Write(data)
		w.Close()
		return b.Bytes()
	case "zstd":
		w, _ := zstd.NewWriter(nil)
		defer w.Close()
		return w.EncodeAll(data, nil)
	}
	return data
}

// bytes makes the file.
func (x *made) bytes() []byte {
	m := &maker{order: binary.ByteOrder(binary.LittleEndian)}
	if x.big {
		m.order = binary.BigEndian
	}
	m.WriteString(Magic)
	m.name(fmt.Sprint(x.version))
	m.WriteByte(map[bool]byte{true: 1}[x.big])
	m.WriteByte(8)
	m.u32(4096)
	if x.version == 6 {
		x.v6(m)
	} else {
		x.v7(m)
	}
	return m.Bytes()
}

func (x *made) v6(m *maker) {
	x.headers(m)
	m.u32(0)
	x.systems(m)
	m.short("")
	m.short("")
	m.long("7 seven\n")
	m.u32(len(x.instances[0].cpus))
	m.name("options  ")
	option := func(id int, data []byte) { m.u16(id); m.u32(len(data)); m.Write(data) }
	option(optProcMaps, []byte(x.procMaps+"\x00"))
	option(optTraceClock, []byte("local [mono]\x00"))
	const entry = 16
	heads := 0
	for _, in := range x.instances[1:] {
		heads += 6 + 8 + len(in.name) + 1
	}
	tables := m.Len() + heads + 2
	table := tagSize + entry*len(x.instances[0].cpus)
	for i, in := range x.instances[1:] {
		b := m.sub()
		b.u64(tables + table*(i+1))
		b.name(in.name)
		option(optBuffer, b.Bytes())
	}
	m.u16(0)
	data := (tables + table*len(x.instances) + 4095) &^ 4095
	var all []byte
	for _, in := range x.instances {
		m.name("flyrecord")
		for _, cpu := range in.cpus {
			m.u64(data + len(all))
			m.u64(len(cpu))
			all = append(all, cpu...)
		}
	}
	m.Write(make([]byte, data-m.Len()))
	m.Write(all)
}

func (x *made) section(m *maker, id int, data []byte) (at int) {
	at = m.Len()
	packed := x.codec != "none"
	if packed {
		p := pack(x.codec, data)
		b := m.sub()
		b.u32(len(p))
		b.u32(len(data))
		b.Write(p)
		data = b.Bytes()
	}
	m.u16(id)
	m.u16(map[bool]int{true: 1}[packed])
	m.u32(0)
	m.u64(len(data))
	m.Write(data)
	return at
}

func (x *made) v7(m *maker) {
	m.name(x.codec)
	m.name("1")
	first := m.Len()
	m.u64(0)
	var opts [2]maker
	for i := range opts {
		opts[i].order = m.order
	}
	option := func(i, id int, data []byte) { opts[i].u16(id); opts[i].u32(len(data)); opts[i].Write(data) }
	points := func(id int, fill func(*maker)) {
		b := m.sub()
		fill(b)
		to := m.sub()
		to.u64(x.section(m, id, b.Bytes()))
		option(0, id, to.Bytes())
	}
	points(optHeaderInfo, x.headers)
	points(optFormats, x.systems)
	points(optCmdlines, func(b *maker) { b.long("7 seven\n") })
	option(0, optProcMaps, []byte(x.procMaps+"\x00"))
	for _, in := range x.instances {
		at := m.Len()
		m.u16(optBuffer)
		m.u16(map[bool]int{true: 1}[x.codec != "none"])
		m.u32(0)
		m.u64(0)
		b := m.sub()
		b.u64(at)
		b.name(in.name)
		b.name(in.clock)
		b.u32(4096)
		b.u32(len(in.cpus))
		for cpu, data := range in.cpus {
			for x.codec == "none" && m.Len()%4096 != 0 {
				m.WriteByte(0) // trace-cmd maps the pages
			}
			b.u32(cpu)
			b.u64(m.Len())
			size := len(data)
			if x.codec != "none" {
				c := m.sub()
				half := len(data) / 4096 / 2 * 4096
				c.u32(2)
				for _, part := range [][]byte{data[:half], data[half:]} {
					p := pack(x.codec, part)
					c.u32(len(p))
					c.u32(len(part))
					c.Write(p)
				}
				data = c.Bytes()
				size = len(data) - 4
			}
			b.u64(size)
			m.Write(data)
		}
		option(1, optBuffer, b.Bytes())
	}
	done := m.sub()
	done.u64(0)
	option(1, optDone, done.Bytes())
	last := x.plain(m, opts[1].Bytes())
	done = m.sub()
	done.u64(last)
	option(0, optDone, done.Bytes())
	at := x.plain(m, opts[0].Bytes())
	m.order.PutUint64(m.Bytes()[first:], uint64(at))
}

// plain is an options section, which trace-cmd does not compress.
func (x *made) plain(m *maker, data []byte) int {
	codec := x.codec
	x.codec = "none"
	defer func() { x.codec = codec }()
	return x.section(m, 0, data)
}

// madePages are sub-buffers with one record each, n counting from first.
func madePages(order binary.ByteOrder, first, pages int) []byte {
	var out []byte
	for i := range pages {
		page := make([]byte, 4096)
		order.PutUint64(page, uint64(first+i)*1000_000)
		order.PutUint64(page[8:], 16)
		word := uint32(3 | 5<<5)
		if order == binary.ByteOrder(binary.BigEndian) {
			word = 3<<27 | 5
		}
		order.PutUint32(page[16:], word)
		order.PutUint16(page[20:], 300)
		order.PutUint32(page[24:], 7)
		order.PutUint32(page[28:], uint32(first+i))
		out = append(out, page...)
	}
	return out
}

func sample(version int, codec string, big bool) *made {
	order := binary.ByteOrder(binary.LittleEndian)
	if big {
		order = binary.BigEndian
	}
	return &made{version: version, codec: codec, big: big, procMaps: "7 1 seven\n1000 2000 /bin/seven\n",
		formats: []string{fmt.Sprintf(madeFormat, "tick", 300)},
		instances: []madeInstance{
			{"", "mono", [][]byte{madePages(order, 1, 3), madePages(order, 10, 2)}},
			{"in it", "mono", [][]byte{madePages(order, 100, 4), nil}},
		}}
}

// samples are small files of all kinds.
func samples(testing.TB) (out [][]byte) {
	for _, big := range []bool{false, true} {
		for _, codec := range []string{"none", "zlib", "zstd"} {
			out = append(out, sample(7, codec, big).bytes())
		}
		out = append(out, sample(6, "none", big).bytes())
	}
	return out
}

// TestMade: both versions, all compressors, both byte orders, several
// instances.
func TestMade(t *testing.T) {
	for i, data := range samples(t) {
		f := open(t, data)
		if len(f.Buffers) != 2 || f.Buffers[0].Name != "" || f.Buffers[1].Name != "in it" {
			t.Fatalf("sample %d has buffers %+v", i, f.Buffers)
		}
		if len(f.ProcMaps) != 1 || f.ProcMaps[0] != "7 1 seven\n1000 2000 /bin/seven\n" {
			t.Errorf("sample %d: PROCMAPS %q", i, f.ProcMaps)
		}
		for k, want := range [2][]int{{1, 2, 3, 10, 11}, {100, 101, 102, 103}} {
			text, _, err := read(t, f.Source(&f.Buffers[k], ring.Options{}, nil))
			var lines strings.Builder
			for _, n := range want {
				cpu := 0
				if n == 10 || n == 11 {
					cpu = 1
				}
				fmt.Fprintf(&lines, "%16s-%-7d [%03d] ..... %5d.%06d: tick: n=%d\n", "seven", 7, cpu, 0, n*1000, n)
			}
			if err != nil || string(text) != lines.String() {
				t.Errorf("sample %d, buffer %d: %v\n%swant\n%s", i, k, err, text, lines.String())
			}
		}
	}
}

// TestLies: hostile numbers give errors, and no memory.
func TestLies(t *testing.T) {
	capturetest.SkipShort(t)
	for i, data := range samples(t) {
		for at := len(Magic); at < len(data); at += 13 {
			if at > 2500 && at < len(data)-1500 {
				at += 499 // trace data, mostly zeros
			}
			bad := bytes.Clone(data)
			for k := at; k < min(at+4, len(bad)); k++ {
				bad[k] = 0xff
			}
			f, _ := Open(bytes.NewReader(bad), int64(len(bad)))
			if f == nil {
				continue
			}
			for k := range f.Buffers {
				if text, _, _ := read(t, f.Source(&f.Buffers[k], ring.Options{}, nil)); len(text) > 1<<20 {
					t.Fatalf("sample %d with byte %d spoilt gives %d bytes", i, at, len(text))
				}
			}
		}
	}
}

// TestMemory: a small file cannot ask for much memory: neither many CPUs that
// share their data, nor chunks that are nothing but size.
func TestMemory(t *testing.T) {
	x := sample(7, "none", false)
	x.instances = x.instances[:1]
	shared := x.bytes()
	f := open(t, shared)
	at, size := f.Buffers[0].cpus[0].at, f.Buffers[0].cpus[0].size
	m := &maker{order: binary.LittleEndian}
	m.u64(int(f.Buffers[0].cpus[1].at))
	if n := bytes.Count(shared, m.Bytes()); n != 1 {
		t.Fatalf("%d places have the offset of the data of CPU 1", n)
	}
	same := m.sub()
	same.u64(int(at))
	same.u64(int(size) + 100_000)
	bad := bytes.Replace(shared, append(m.Bytes(), shared[bytes.Index(shared, m.Bytes())+8:][:8]...), same.Bytes(), 1)
	if f, err := Open(bytes.NewReader(bad), int64(len(bad))); f != nil || err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("CPUs that share their data: %v", err)
	}
	x = sample(7, "zstd", false)
	x.instances[0].cpus[0] = make([]byte, 8<<20)
	bomb := x.bytes()
	f = open(t, bomb)
	if _, _, err := read(t, f.Source(&f.Buffers[0], ring.Options{}, nil)); err == nil || !strings.Contains(err.Error(), "is the most") {
		t.Errorf("a chunk that is nothing but size: %v", err)
	}
}

// TestUnknown: other versions and compressors are named.
func TestUnknown(t *testing.T) {
	data := sample(7, "zstd", false).bytes()
	for _, x := range [...]struct{ from, to, want string }{
		{"tracing7", "tracing8", `version "8"`},
		{"zstd\x00", "lz4x\x00", `compressed with "lz4x"`},
		{"\x17\x08", "\x18\x08", `instead of`},
	} {
		bad := bytes.Replace(data, []byte(x.from), []byte(x.to), 1)
		if _, err := Open(bytes.NewReader(bad), int64(len(bad))); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: error %v", x.to, err)
		}
	}
}
