package debuginfod

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

const id = "c2e0a63b"

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
	full := newServer(t, map[string]string{"/x/buildid/" + id + "/debuginfo": "debug"})
	cache := t.TempDir()
	opt := Options{URLs: []string{empty.URL, full.URL + "/x"}, Cache: cache, Headers: http.Header{"X-Key": {"k"}}}
	if c := New(opt); c.Has(id, DebugInfo) {
		t.Error("an empty cache has the file")
	}
	for range 2 {
		path, err := New(opt).Fetch(t.Context(), id, DebugInfo)
		if err != nil || path != filepath.Join(cache, id, "debuginfo") || read(t, path) != "debug" {
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
		if _, err := New(opt).Fetch(t.Context(), id, Executable); !errors.Is(err, ErrMissing) {
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
	if n, _ := s.asked(); !errors.Is(err, ErrMissing) || n != 2 {
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
		if path, err := c.Fetch(t.Context(), id, Executable); err == nil || errors.Is(err, ErrMissing) {
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
	s := newServer(t, map[string]string{"/buildid/" + id + "/executable": "0123456789", "/buildid/02/executable": "x"})
	c := New(Options{URLs: []string{s.URL}, Cache: t.TempDir(), MaxSize: 9})
	if _, err := c.Fetch(t.Context(), id, Executable); err == nil {
		t.Error("a file that is too large")
	}
	c = New(Options{URLs: []string{s.URL}, Cache: t.TempDir()})
	c.spent = c.opt.Budget
	if _, err := c.Fetch(t.Context(), "02", Executable); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	c = New(Options{URLs: []string{s.URL}, Cache: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Fetch(ctx, "02", Executable); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, bad := range []string{"", "../../etc", "c2e0a63", "zz"} {
		if _, err := c.Fetch(t.Context(), bad, Executable); err == nil {
			t.Errorf("%q is asked for", bad)
		}
	}
	if _, err := c.Fetch(t.Context(), "02", "source/etc"); err == nil {
		t.Error("another kind is asked for")
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
