package debuginfod

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const id = "c2e0a63b"

// file is an ELF file with a build ID and some text.
func file(id, text string) string {
	raw, _ := hex.DecodeString(id)
	b := make([]byte, 128)
	le := binary.LittleEndian
	copy(b, elf.ELFMAG+"\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint64(b[32:], 64) // e_phoff
	le.PutUint16(b[54:], 56) // e_phentsize
	le.PutUint16(b[56:], 1)  // e_phnum
	le.PutUint32(b[64:], uint32(elf.PT_NOTE))
	le.PutUint64(b[64+8:], 128)
	le.PutUint64(b[64+32:], uint64(16+(len(raw)+3)&^3))
	for _, v := range []uint32{4, uint32(len(raw)), 3} {
		b = le.AppendUint32(b, v)
	}
	return string(b) + "GNU\x00" + string(raw) + strings.Repeat("\x00", -len(raw)&3) + text
}

// server is a debuginfod server that has files by path, and counts requests.
type server struct {
	*httptest.Server
	files map[string]string

	mu       sync.Mutex // a client that gives up does not wait for the handler
	requests int
	header   http.Header
}

// asked returns how many requests there were, and the header of the last.
func (s *server) asked() (int, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.header
}

func newServer(t *testing.T, files map[string]string) *server {
	s := &server{files: files}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests++
		s.header = r.Header.Clone()
		s.mu.Unlock()
		text, ok := s.files[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case text == "broken":
			http.Error(w, "broken", http.StatusInternalServerError)
		case text == "slow":
			<-r.Context().Done()
		case text == "stuck":
			_, _ = w.Write([]byte("begin"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFetch: the second server has the file; then the cache has it.
func TestFetch(t *testing.T) {
	empty := newServer(t, nil)
	full := newServer(t, map[string]string{"/x/buildid/" + id + "/debuginfo": file(id, "debug")})
	cache := t.TempDir()
	opt := Options{URLs: []string{empty.URL, full.URL + "/x"}, Cache: cache, Headers: http.Header{"X-Key": {"k"}}}
	if c := New(opt); c.Has(id, DebugInfo) {
		t.Error("an empty cache has the file")
	}
	for range 2 {
		path, err := New(opt).Fetch(t.Context(), id, DebugInfo)
		if err != nil || path != filepath.Join(cache, id, "debuginfo") || read(t, path) != file(id, "debug") {
			t.Fatalf("%q, %v", path, err)
		}
	}
	first, _ := empty.asked()
	second, header := full.asked()
	if first != 1 || second != 1 || header.Get("X-Key") != "k" {
		t.Errorf("%d and %d requests, header %v", first, second, header)
	}
	if c := New(opt); !c.Has(id, DebugInfo) || c.Has(id, Executable) {
		t.Error("the cache does not know what it has")
	}
	left, err := os.ReadDir(filepath.Join(cache, id))
	if err != nil || len(left) != 1 {
		t.Errorf("%v in the cache, %v", left, err)
	}
}

// TestMissing: what no server has is asked for once, until the note is old.
func TestMissing(t *testing.T) {
	s := newServer(t, nil)
	opt := Options{URLs: []string{s.URL}, Cache: t.TempDir()}
	for range 2 {
		if _, err := New(opt).Fetch(t.Context(), id, Executable); !errors.Is(err, errMissing) {
			t.Fatal(err)
		}
	}
	if n, _ := s.asked(); n != 1 {
		t.Errorf("%d requests", n)
	}
	if err := os.WriteFile(filepath.Join(opt.Cache, "cache_miss_s"), []byte("0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(opt).Fetch(t.Context(), id, Executable)
	if n, _ := s.asked(); !errors.Is(err, errMissing) || n != 2 {
		t.Errorf("%v, %d requests", err, n)
	}
}

// TestBadServers: a server that fails is not asked again, and nothing is
// noted in the cache.
func TestBadServers(t *testing.T) {
	for _, how := range []string{"broken", "slow", "stuck"} {
		t.Run(how, func(t *testing.T) {
			// On a busy machine a short time is over before the server has taken
			// the request: then a longer one decides.
			n, wait := 0, 50*time.Millisecond
			for ; n == 0 && wait < time.Minute; wait *= 2 {
				n = askBad(t, how, wait)
			}
			if n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// askBad asks a server that fails for two files and returns how many requests
// it got.
func askBad(t *testing.T, how string, wait time.Duration) int {
	t.Helper()
	s := newServer(t, map[string]string{"/buildid/" + id + "/executable": how, "/buildid/01/executable": how})
	c := New(Options{URLs: []string{s.URL}, Cache: t.TempDir(), Timeout: wait})
	for _, id := range []string{id, "01"} {
		if path, err := c.Fetch(t.Context(), id, Executable); err == nil || errors.Is(err, errMissing) {
			t.Errorf("%q, %v", path, err)
		}
		if files, _ := filepath.Glob(filepath.Join(c.opt.Cache, id, "*")); len(files) > 0 {
			t.Errorf("%v in the cache", files)
		}
	}
	n, _ := s.asked()
	return n
}

func TestLimits(t *testing.T) {
	s := newServer(t, map[string]string{"/buildid/" + id + "/executable": file(id, "0123456789"), "/buildid/02/executable": file("02", "x")})
	c := New(Options{URLs: []string{s.URL}, Cache: t.TempDir(), MaxSize: int64(len(file("02", "x")))})
	if _, err := c.Fetch(t.Context(), id, Executable); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
	if _, err := c.Fetch(t.Context(), "02", Executable); err != nil {
		t.Errorf("after a file that is too large: %v", err)
	}
	c = New(Options{URLs: []string{s.URL}, Cache: t.TempDir()})
	c.spent = c.opt.Budget
	if _, err := c.Fetch(t.Context(), "02", Executable); !errors.Is(err, errBudget) {
		t.Error(err)
	}
	c = New(Options{URLs: []string{s.URL}, Cache: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Fetch(ctx, "02", Executable); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []string{"", "../../etc", "c2e0a63", "zz", "C2E0A63B", strings.Repeat("01", 21)} {
		if _, err := c.Fetch(t.Context(), bad, Executable); err == nil {
			t.Errorf("%q is asked for", bad)
		}
	}
	if _, err := c.Fetch(t.Context(), "02", "source/etc"); err == nil {
		t.Error("another kind is asked for")
	}
}

// TestWrongFile: a file with another build ID is not kept, and does not keep others
// from being fetched.
func TestWrongFile(t *testing.T) {
	wrong := newServer(t, map[string]string{"/buildid/" + id + "/debuginfo": file("c2e0a63c", ""), "/buildid/02/debuginfo": "no ELF file", "/buildid/03/debuginfo": file("03", "")})
	right := newServer(t, map[string]string{"/buildid/" + id + "/debuginfo": file(id+"00", "")}) // a zero that is not asked for
	cache := t.TempDir()
	c := New(Options{URLs: []string{wrong.URL}, Cache: cache})
	for _, bad := range []string{id, "02"} {
		path, err := c.Fetch(t.Context(), bad, DebugInfo)
		if !errors.Is(err, errWrongFile) || errors.Is(err, errMissing) {
			t.Errorf("%s: %q, %v", bad, path, err)
		}
		if c.Has(bad, DebugInfo) {
			t.Errorf("%s is in the cache", bad)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(left) > 0 {
		t.Errorf("%q in the cache", left)
	}
	if _, err := c.Fetch(t.Context(), "03", DebugInfo); err != nil {
		t.Errorf("another file: %v", err)
	}
	path, err := New(Options{URLs: []string{wrong.URL, right.URL}, Cache: cache}).Fetch(t.Context(), id, DebugInfo)
	if err != nil || read(t, path) != file(id+"00", "") {
		t.Errorf("from the second server: %q, %v", path, err)
	}
}

// TestTotal: all files together have a limit, including useless ones, and a file
// that would exceed it is not requested.
func TestTotal(t *testing.T) {
	files := make(map[string]string)
	for _, id := range []string{"01", "02", "03", "04", "05"} {
		files["/buildid/"+id+"/executable"] = file(id, "")
	}
	files["/buildid/02/executable"] = file("99", "") // another one
	files["/buildid/06/executable"] = file("06", strings.Repeat("x", 1000))
	s := newServer(t, files)
	size := int64(len(file("01", "")))
	c := New(Options{URLs: []string{s.URL}, Cache: t.TempDir(), MaxTotal: 3*size + size/2})
	fetched := 0
	for _, id := range []string{"01", "06", "02", "03", "04", "05"} {
		if _, err := c.Fetch(t.Context(), id, Executable); err == nil {
			fetched++
		} else if !errors.Is(err, errTotal) && !errors.Is(err, errWrongFile) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if fetched != 2 || c.bytes > c.opt.MaxTotal {
		t.Errorf("%d files, %d of %d bytes", fetched, c.bytes, c.opt.MaxTotal)
	}
	c.bytes = c.opt.MaxTotal
	before, _ := s.asked()
	if _, err := c.Fetch(t.Context(), "05", Executable); !errors.Is(err, errTotal) {
		t.Error(err)
	}
	if after, _ := s.asked(); after != before {
		t.Error("a server was asked although nothing may be fetched")
	}
}

// TestNotes: what is noted of missing files is bounded, and is written through no
// link.
func TestNotes(t *testing.T) {
	s := newServer(t, nil)
	cache := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Chtimes(victim, time.Unix(1, 0), time.Unix(1, 0)), os.Mkdir(filepath.Join(cache, id), 0o700),
		os.Symlink(victim, filepath.Join(cache, id, Executable)))
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{URLs: []string{s.URL}, Cache: cache})
	if _, err := c.Fetch(t.Context(), id, Executable); !errors.Is(err, errMissing) || !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if info, err := os.Stat(victim); err != nil || info.ModTime() != time.Unix(1, 0) {
		t.Errorf("the victim is %v, %v", info, err)
	}
	c.notes = maxMisses
	if _, err := c.Fetch(t.Context(), "07", Executable); !errors.Is(err, errMissing) || c.Has("07", Executable) {
		t.Errorf("%v, noted: %v", err, c.Has("07", Executable))
	}
}

func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	headers := filepath.Join(home, "headers")
	if err := os.WriteFile(headers, []byte("X-A: b\nX-C:d e\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"DEBUGINFOD_URLS":    "ima:enforcing https://a.example/ ima:ignore http://b.example/buildid",
		"DEBUGINFOD_TIMEOUT": "7", "DEBUGINFOD_MAXTIME": "9", "DEBUGINFOD_MAXSIZE": "100", "DEBUGINFOD_HEADERS_FILE": headers,
	}
	getenv := func(name string) string { return env[name] }
	opt, err := Environment(getenv, home)
	if err != nil || len(opt.URLs) != 2 || opt.URLs[0] != "https://a.example" || opt.URLs[1] != "http://b.example" ||
		opt.Timeout != 7*time.Second || opt.Budget != 9*time.Second || opt.MaxSize != 100 ||
		opt.Headers.Get("x-a") != "b" || opt.Headers.Get("x-c") != "d e" {
		t.Errorf("%+v, %v", opt, err)
	}
	caches := []struct{ name, value, want string }{
		{"", "", filepath.Join(home, ".cache/debuginfod_client")},
		{"XDG_CACHE_HOME", "/xdg", "/xdg/debuginfod_client"},
		{"DEBUGINFOD_CACHE_PATH", "/own", "/own"},
	}
	for _, c := range caches {
		env[c.name] = c.value
		if opt, err := Environment(getenv, home); err != nil || opt.Cache != c.want {
			t.Errorf("%s: cache %q, want %q (%v)", c.name, opt.Cache, c.want, err)
		}
	}
	delete(env, "DEBUGINFOD_CACHE_PATH")
	old := filepath.Join(home, ".debuginfod_client_cache")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	if opt, err := Environment(getenv, home); err != nil || opt.Cache != old {
		t.Errorf("cache %q, want %q (%v)", opt.Cache, old, err)
	}
	for name, value := range map[string]string{
		"DEBUGINFOD_URLS": "ftp://x", "DEBUGINFOD_TIMEOUT": "soon", "DEBUGINFOD_MAXSIZE": "-1", "DEBUGINFOD_HEADERS_FILE": "/none",
	} {
		before := env[name]
		env[name] = value
		if _, err := Environment(getenv, home); err == nil {
			t.Errorf("%s=%s is taken", name, value)
		}
		env[name] = before
	}
	env["DEBUGINFOD_URLS"] = " ima:ignore "
	if _, err := Environment(getenv, home); err == nil {
		t.Error("no URL is taken")
	}
}

// section is an ELF file with a build ID and one section of this kind, which goes from the
// beginning of the file to an offset.
func section(id string, kind elf.SectionType, to int) string {
	b := []byte(file(id, ""))
	le := binary.LittleEndian
	le.PutUint64(b[40:], uint64(len(b))) // e_shoff
	le.PutUint16(b[58:], 64)             // e_shentsize
	le.PutUint16(b[60:], 1)              // e_shnum
	le.PutUint16(b[62:], 1)              // e_shstrndx: there is none
	h := make([]byte, 64)
	le.PutUint32(h[4:], uint32(kind))
	le.PutUint64(h[8:], uint64(elf.SHF_ALLOC|elf.SHF_EXECINSTR))
	le.PutUint64(h[32:], uint64(to))
	return string(append(b, h...))
}

// TestKept: only a whole file of the right kind is kept, and what is not is no reason not
// to ask for another one.
func TestKept(t *testing.T) {
	size := len(section(id, elf.SHT_PROGBITS, 0))
	whole := section(id, elf.SHT_PROGBITS, size)
	for _, c := range []struct {
		what, kind, text string
		want             error
	}{
		{"whole", Executable, whole, nil},
		{"whole, with more", Executable, whole + "more", nil},
		{"whole", DebugInfo, whole, nil},
		{"cut in the headers", Executable, whole[:size-1], errDamaged},
		{"cut in a section", Executable, section(id, elf.SHT_PROGBITS, size+1), errDamaged},
		{"cut in a section", DebugInfo, section(id, elf.SHT_PROGBITS, size+1), errDamaged},
		{"debug information", Executable, section(id, elf.SHT_NOBITS, size), errWrongFile},
		{"debug information", DebugInfo, section(id, elf.SHT_NOBITS, 1<<40), nil},
	} {
		s := newServer(t, map[string]string{"/buildid/" + id + "/" + c.kind: c.text, "/buildid/02/debuginfo": file("02", "")})
		client := New(Options{URLs: []string{s.URL}, Cache: t.TempDir()})
		if path, err := client.Fetch(t.Context(), id, c.kind); !errors.Is(err, c.want) || (err == nil) != client.Has(id, c.kind) {
			t.Errorf("%s, %s: %q, %v", c.what, c.kind, path, err)
		}
		if left, _ := filepath.Glob(filepath.Join(client.opt.Cache, id, "*")); c.want != nil && len(left) > 0 {
			t.Errorf("%s, %s: %v in the cache", c.what, c.kind, left)
		}
		if _, err := client.Fetch(t.Context(), "02", DebugInfo); err != nil {
			t.Errorf("%s, %s: then %v", c.what, c.kind, err)
		}
	}
}
