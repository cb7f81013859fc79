package tracegen

import (
	"fmt"
	"strings"
)

// A file that processes map.
type file struct {
	text string // of its mapping event, after the identifier
}

// A program is what processes of one kind run.
type program struct {
	spec
	files  []*file // executable first, then libc, then others
	chains [maxDepth + 1][]chain
	linker *chain // what the first stacks of a process look like
}

// A chain is a possible user stack of a program.
type chain struct {
	frames []frame
	used   uint32 // bit set of the mappings it uses
	tail   uint32 // the same without the first frame
}

// A frame's text lacks the identifier, which each process has its own of.
type frame struct {
	text string
	slot int
}

// spec is what a program looks like.
type spec struct {
	comm       string
	numbered   bool // threads have numbers at the end of their names
	minThreads int
	maxThreads int
	path       string
	static     bool // maps nothing but itself
	jit        bool // generates code
	libs       []string
}

const (
	maxDepth = 8
	variants = 12 // chains of each depth

	libc   = "/lib/x86_64-linux-gnu/libc.so.6"
	linker = "/lib64/ld-linux-x86-64.so.2"
)

var specs = []spec{
	{comm: "cat", path: "/bin/busybox", minThreads: 1, maxThreads: 3},
	{comm: "dlhost", path: "/opt/bank/dlhost", minThreads: 12, maxThreads: 20, libs: []string{"/opt/bank/lib/libplug.so"}},
	{comm: "svc", path: "/srv/app/svc", minThreads: 12, maxThreads: 20},
	{comm: "python3", path: "/usr/bin/python3.11", minThreads: 12, maxThreads: 18, libs: []string{"/usr/lib/python3.11/lib-dynload/_queue.cpython-311-x86_64-linux-gnu.so"}},
	{comm: "pt-w", numbered: true, path: "/opt/bank/contend", minThreads: 12, maxThreads: 20},
	{comm: "fp-w", numbered: true, path: "/opt/bank/contend-fp", minThreads: 6, maxThreads: 10},
	{comm: "cv-w", numbered: true, path: "/opt/bank/contend-cv", minThreads: 8, maxThreads: 12},
	{comm: "jit", path: "/opt/jit/jit", jit: true, minThreads: 10, maxThreads: 16, libs: []string{"/memfd:jit code cache (deleted)"}},
	{comm: "gomutex", path: "/opt/go/gomutex", static: true, minThreads: 8, maxThreads: 12},
	{comm: "gone", path: "/tmp/gone", minThreads: 4, maxThreads: 8},
	{comm: "forkexec", path: "/opt/misc/forkexec", minThreads: 2, maxThreads: 4},
	{comm: "nginx", path: "/usr/sbin/nginx", minThreads: 8, maxThreads: 16, libs: []string{"/usr/lib/x86_64-linux-gnu/libssl.so.3", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"}},
	{comm: "postgres", path: "/usr/lib/postgresql/15/bin/postgres", minThreads: 10, maxThreads: 18, libs: []string{"/usr/lib/postgresql/15/lib/pg_stat_statements.so"}},
	{comm: "redis-server", path: "/usr/bin/redis-server", minThreads: 4, maxThreads: 6, libs: []string{"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"}},
	{comm: "node", path: "/usr/bin/node", jit: true, minThreads: 8, maxThreads: 12, libs: []string{"/usr/lib/x86_64-linux-gnu/libuv.so.1.0.0"}},
	{comm: "prometheus", path: "/usr/local/bin/prometheus", static: true, minThreads: 10, maxThreads: 16},
	{comm: "containerd", path: "/usr/bin/containerd", static: true, minThreads: 10, maxThreads: 16},
	{comm: "mysqld", path: "/usr/sbin/mysqld", minThreads: 14, maxThreads: 24, libs: []string{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"}},
	{comm: "dbus-daemon", path: "/usr/bin/dbus-daemon", minThreads: 1, maxThreads: 2, libs: []string{"/usr/lib/x86_64-linux-gnu/libdbus-1.so.3.32.4"}},
	{comm: "systemd-journal", path: "/usr/lib/systemd/systemd-journald", minThreads: 1, maxThreads: 2, libs: []string{"/usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so"}},
	{comm: "render-", numbered: true, path: "/opt/My Apps/\u00dcn\u00efc\u00f6d\u00e9/render", minThreads: 8, maxThreads: 12, libs: []string{"/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"}},
	{comm: "sshd", path: "/usr/sbin/sshd", minThreads: 1, maxThreads: 2, libs: []string{"/usr/lib/x86_64-linux-gnu/libcrypto.so.3"}},
	{comm: "worker", numbered: true, path: "/home/build/target/release/worker", minThreads: 12, maxThreads: 20},
	{comm: "cc1plus", path: "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", minThreads: 1, maxThreads: 2, libs: []string{"/usr/lib/x86_64-linux-gnu/libgmp.so.10.4.1"}},
	{comm: "bash", path: "/usr/bin/bash", minThreads: 1, maxThreads: 1, libs: []string{"/usr/lib/x86_64-linux-gnu/libtinfo.so.6.3"}},
	{comm: "rsyslogd", path: "/usr/sbin/rsyslogd", minThreads: 3, maxThreads: 5, libs: []string{"/usr/lib/x86_64-linux-gnu/rsyslog/imuxsock.so"}},
}

// catalogue makes the files and programs.
func catalogue(r random) ([]file, []program) {
	var paths []string
	index := make(map[string]int)
	add := func(path string) {
		if _, ok := index[path]; !ok {
			index[path] = len(paths)
			paths = append(paths, path)
		}
	}
	add(libc)
	add(linker)
	for _, s := range specs {
		add(s.path)
		for _, l := range s.libs {
			add(l)
		}
	}

	files := make([]file, len(paths))
	for i, p := range paths {
		files[i] = newFile(r, p)
	}
	programs := make([]program, len(specs))
	for i, s := range specs {
		p := &programs[i]
		p.spec = s
		p.files = []*file{&files[index[s.path]]}
		if !s.static {
			p.files = append(p.files, &files[index[libc]], &files[index[linker]])
			for _, l := range s.libs {
				p.files = append(p.files, &files[index[l]])
			}
			p.linker = newChain([]frame{newFrame(r, 2, 0x1000, 0x26000)})
		}
		for d := 1; d <= maxDepth; d++ {
			for range variants {
				p.chains[d] = append(p.chains[d], p.newChain(r, d))
			}
		}
	}
	return files, programs
}

// newFile makes up a build ID of five words. Memory without a file and Go
// programs come without one.
func newFile(r random, path string) file {
	var words [5]uint32
	if !strings.HasPrefix(path, "/memfd:") && !strings.HasPrefix(path, "/opt/go/") {
		for i := range words {
			words[i] = uint32(r.pcg.Uint64())
		}
	}
	return file{fmt.Sprintf(" path=%s build_id={0x%x,0x%x,0x%x,0x%x,0x%x}\n",
		path, words[0], words[1], words[2], words[3], words[4])}
}

// newChain makes a stack of the given depth: a leaf in libc or in the program
// itself, then the program, at times by way of another library, and the start
// of the thread in libc.
func (p *program) newChain(r random, depth int) chain {
	frames := make([]frame, depth)
	lib := len(p.files) > 3 && r.chance(1, 2)
	for i := range frames {
		switch {
		case p.static:
			frames[i] = newFrame(r, 0, 0x11000, 0x90000)
		case i == 0 && r.chance(1, 2), i > 1 && i == depth-1:
			frames[i] = newFrame(r, 1, 0x28000, 0x120000)
		case lib && i <= 1:
			frames[i] = newFrame(r, 3+r.n(len(p.files)-3), 0x1000, 0x9000)
		default:
			frames[i] = newFrame(r, 0, 0x1000, 0x4000)
		}
	}
	return *newChain(frames)
}

func newChain(frames []frame) *chain {
	c := &chain{frames: frames}
	for i, f := range frames {
		c.used |= 1 << f.slot
		if i > 0 {
			c.tail |= 1 << f.slot
		}
	}
	return c
}

func newFrame(r random, slot, lo, hi int) frame {
	return frame{text: fmt.Sprintf(" =>  <%016x> : ", r.between(lo, hi)), slot: slot}
}

// Shares of the stack depths 0 to 8, by what the task was doing, as in the
// real capture.
var (
	depthsSleep = []int{0, 6060, 90, 70, 40, 3660, 40, 15, 25}
	depthsWake  = []int{0, 1810, 10, 1580, 1840, 4660, 10, 20, 70}
	depthsWait  = []int{0, 2620, 0, 100, 1900, 4800, 470, 100, 10}
)

// chain chooses a stack for the end of an entry into the kernel.
func (p *program) chain(r random, script string) *chain {
	depths := depthsWake
	switch script {
	case scriptSleep, scriptSleepTwice:
		depths = depthsSleep
	case scriptWait, scriptWaitTwice, scriptPreempted:
		depths = depthsWait
	}
	chains := p.chains[r.pick(depths)]
	return &chains[r.n(len(chains))]
}

// Indices of a process's frames which belong to no file.
const (
	wild      = iota // address without a mapping
	anonymous        // generated code
	vdso
)

// specialFrames makes those frames.
func (g *generator) specialFrames() (f [3]frame) {
	f[wild].text = fmt.Sprintf(" =>  <%016x> : 0xffffffff\n", 0x7000_0000_0000_0000|g.r.pcg.Uint64()>>4)
	f[anonymous].text = fmt.Sprintf(" =>  <%016x> : 0x0\n", 0x7f00_0000_0000|g.r.pcg.Uint64()>>24)
	f[vdso].text = fmt.Sprintf(" =>  <%016x> : 0x0\n", g.r.between(0x800, 0xfff))
	return f
}

// A form is a way to call futex, with %P for pointers of the process.
type form struct {
	weight  int
	text    string
	timeout bool
	all     bool
}

var wakeForms = []form{
	{weight: 10274, text: "op: 1, val: 1, utime: 0, uaddr2: 0, val3: %P"},
	{weight: 4800, text: "op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0"},
	{weight: 2001, text: "op: 0x81, val: 1, utime: 0, uaddr2: %P, val3: %P"},
	{weight: 1645, text: "op: 0x81, val: 1, utime: 0, uaddr2: 0x58ba30, val3: 2"},
	{weight: 790, text: "op: 0x81, val: 1, utime: 0, uaddr2: 0xa5b8c8, val3: 0xa5b8e8"},
	{weight: 698, text: "op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: %P"},
	{weight: 672, text: "op: 0x81, val: 1, utime: 0, uaddr2: 0, val3: 0xffffffff"},
	{weight: 401, text: "op: 0x81, val: 0x7fffffff, utime: 0, uaddr2: 0, val3: 0xffffffff", all: true},
}

var waitForms = []form{
	{weight: 9593, text: "op: 0, val: 2, utime: 0, uaddr2: 0, val3: %P"},
	{weight: 4055, text: "op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0"},
	{weight: 2520, text: "op: 0, val: 1, utime: %P, uaddr2: 0, val3: %P", timeout: true},
	{weight: 1709, text: "op: 0x189, val: 0, utime: %P, uaddr2: 0, val3: 0xffffffff", timeout: true},
	{weight: 1644, text: "op: 0x189, val: 0, utime: 0, uaddr2: 0, val3: 0xffffffff"},
	{weight: 936, text: "op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0xffffffff"},
	{weight: 519, text: "op: 0x89, val: 0, utime: %P, uaddr2: 0, val3: 0xffffffff", timeout: true},
	{weight: 280, text: "op: 0x80, val: 3, utime: 0, uaddr2: %P, val3: 1"},
	{weight: 160, text: "op: 0x109, val: 1284, utime: 0, uaddr2: 0, val3: 0xffffffff"},
}

// futexCalls chooses the futex calls of a process.
func (g *generator) futexCalls() (wakes, waits []futexCall) {
	heap := 0x5500_0000_0000 | g.r.pcg.Uint64()>>24&^0xffff
	stack := 0x7f00_0000_0000 | g.r.pcg.Uint64()>>24&^0xfff
	for range 24 {
		wakes = append(wakes, g.futexCall(wakeForms, heap, stack))
		waits = append(waits, g.futexCall(waitForms, heap, stack))
	}
	return wakes, waits
}

func (g *generator) futexCall(forms []form, heap, stack uint64) futexCall {
	weights := make([]int, len(forms))
	for i, f := range forms {
		weights[i] = f.weight
	}
	f := forms[g.r.pick(weights)]
	text := fmt.Sprintf("sys_futex(uaddr: 0x%x, %s)\n", heap+uint64(g.r.n(16))*0x40, f.text)
	for strings.Contains(text, "%P") {
		text = strings.Replace(text, "%P", fmt.Sprintf("0x%x", stack+uint64(g.r.n(256))*8), 1)
	}
	return futexCall{body: text, timeout: f.timeout, all: f.all}
}
