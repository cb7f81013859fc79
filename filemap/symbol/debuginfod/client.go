// Package debuginfod fetches files by their build IDs from debuginfod servers,
// with the environment variables and the cache of libdebuginfod (man 3
// debuginfod_find_debuginfo), so that both find what the other has fetched.
//
// Servers are slow and many: each request has a deadline, all together have a
// budget, a server that does not answer is not asked again, and what no server
// has is remembered.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/elfid"
	"ustack/filemap/symbol/image"
)

// Kinds of files.
const (
	Executable = "executable"
	DebugInfo  = "debuginfo"
)

var (
	// errMissing is the error of a file that no server has.
	errMissing = errors.New("no server has it")
	// errBudget is the error when the time for all requests is over.
	errBudget = errors.New("the time for debuginfod is used up")
	// errTotal is the error of a file that is larger than the room left for all
	// files together.
	errTotal = errors.New("the bytes for all files of debuginfod are used up")
	// errTooLarge is the error of a file that is larger than any may be.
	errTooLarge = errors.New("more bytes than the limit for a file")
	// errWrongFile is the error of a file with another build ID, or of the other kind.
	errWrongFile = errors.New("the server has sent another file")
	// errDamaged is the error of a file with the right build ID that is no ELF file
	// otherwise, or not all of it.
	errDamaged = errors.New("the server has sent a damaged file, or a part of it")
)

// Options configure a Client.
type Options struct {
	// URLs are the servers, in the order in which they are asked.
	URLs []string
	// Cache is the directory of what was fetched.
	Cache string
	// Timeout is for a server to begin its answer, and between its parts.
	Timeout time.Duration
	// Budget is for all requests of a Client together.
	Budget time.Duration
	// MaxSize is the most bytes a file may have, MaxTotal the most of all files
	// that a Client fetches, including files that turn out to be useless; 0 for the
	// defaults. A trace can name any number of files.
	MaxSize, MaxTotal int64
	// Headers are sent with each request.
	Headers http.Header
	// Asked is called when a server is asked for a file, and what it returns when that is
	// over. how returns how many bytes of how many have come, 0 if that is unknown, and
	// may be called by any goroutine. Asked may be nil.
	Asked func(server, id, kind string, how func() (got, size int64)) (over func())
}

// Defaults. libdebuginfod waits for 90 s, for each file.
const (
	DefaultTimeout = 5 * time.Second
	DefaultBudget  = 60 * time.Second
	defaultMaxSize = 4 << 30
	defaultMiss    = 600 * time.Second
	// maxMisses is how many missing files a Client notes in the cache.
	maxMisses = 1 << 12
)

// Client fetches files. It is not for several goroutines at once.
type Client struct {
	opt   Options
	http  *http.Client
	dead  map[string]bool
	spent time.Duration
	bytes int64 // fetched
	notes int   // of missing files
}

// New returns a Client.
func New(opt Options) *Client {
	if opt.Timeout <= 0 {
		opt.Timeout = DefaultTimeout
	}
	if opt.Budget <= 0 {
		opt.Budget = DefaultBudget
	}
	if opt.MaxSize <= 0 {
		opt.MaxSize = defaultMaxSize
	}
	if opt.MaxTotal <= 0 {
		opt.MaxTotal = max(defaultMaxSize, opt.MaxSize)
	}
	return &Client{opt: opt, http: &http.Client{}, dead: make(map[string]bool)}
}

// Fetch returns the path of a file by its build ID in hexadecimal: from the
// cache, or else from the first server that has it.
func (c *Client) Fetch(ctx context.Context, id, kind string) (string, error) {
	if known, ok := elfid.Parse([]byte(id)); !ok || known.Hex() != id || kind != Executable && kind != DebugInfo {
		return "", fmt.Errorf("asking for %s of %q: not a build ID", kind, id)
	}
	path := filepath.Join(c.opt.Cache, id, kind)
	if have, missing := c.cached(path); have {
		return path, nil
	} else if missing {
		return "", errMissing
	}
	start := time.Now()
	defer func() { c.spent += time.Since(start) }()
	failures := error(nil)
	for _, server := range c.opt.URLs {
		if c.dead[server] {
			continue
		}
		if c.spent+time.Since(start) >= c.opt.Budget {
			return "", errBudget
		}
		if c.bytes >= c.opt.MaxTotal {
			return "", errTotal
		}
		err := c.ask(ctx, server, id, kind, path)
		switch {
		case err == nil:
			return path, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, errTotal):
			return "", err
		case !errors.Is(err, errMissing):
			// One file that is not to be had is no reason not to ask for others.
			if !errors.Is(err, errWrongFile) && !errors.Is(err, errDamaged) && !errors.Is(err, errTooLarge) {
				c.dead[server] = true
			}
			failures = errors.Join(failures, err)
		}
	}
	if failures != nil {
		return "", failures
	}
	if len(c.dead) == len(c.opt.URLs) {
		return "", errors.New("no server answers")
	}
	return "", errors.Join(errMissing, c.remember(path))
}

// Has reports whether the cache knows about a file, so that no server is asked.
func (c *Client) Has(id, kind string) bool {
	have, missing := c.cached(filepath.Join(c.opt.Cache, id, kind))
	return have || missing
}

// cached looks into the cache: it has the file, or knows that there is none.
func (c *Client) cached(path string) (have, missing bool) {
	info, err := os.Stat(path)
	if err != nil {
		return false, false
	}
	return info.Size() > 0, info.Size() == 0 && time.Since(info.ModTime()) < c.missTime()
}

// remember notes that no server has a file: an empty file says so.
func (c *Client) remember(path string) error {
	if c.notes++; c.notes > maxMisses {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("noting in the cache that a file is missing: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("noting in the cache that a file is missing: %w", err)
	}
	return nil
}

// ask gets a file from a server.
func (c *Client) ask(ctx context.Context, server, id, kind, path string) error {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Budget-c.spent)
	defer cancel()
	idle := time.AfterFunc(c.opt.Timeout, cancel)
	defer idle.Stop()
	var got, size atomic.Int64
	if c.opt.Asked != nil {
		defer c.opt.Asked(server, id, kind, func() (int64, int64) { return got.Load(), size.Load() })()
	}
	url := server + "/buildid/" + id + "/" + kind
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header = c.opt.Headers.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("User-Agent", "ustack")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("asking debuginfod: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errMissing
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("asking debuginfod: %s: %s", url, resp.Status)
	}
	if err := c.fits(resp.ContentLength); err != nil {
		return fmt.Errorf("asking debuginfod: %s has %d bytes: %w", url, resp.ContentLength, err)
	}
	size.Store(max(resp.ContentLength, 0))
	return c.save(&patient{r: resp.Body, timer: idle, wait: c.opt.Timeout, got: &got}, id, path, url)
}

// fits checks that a file of so many bytes may be fetched.
func (c *Client) fits(size int64) error {
	switch {
	case size > c.opt.MaxSize:
		return errTooLarge
	case size > c.opt.MaxTotal-c.bytes:
		return errTotal
	}
	return nil
}

// save writes a file into the cache, so that no part of it is seen there, nor a
// file with another build ID.
func (c *Client) save(r io.Reader, id, path, url string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	defer os.Remove(temp.Name())
	kind := filepath.Base(path)
	n, err := io.Copy(temp, io.LimitReader(r, min(c.opt.MaxSize, c.opt.MaxTotal-c.bytes)+1))
	if err == nil {
		err = c.fits(n)
	}
	c.bytes += n
	if err == nil {
		err = isFile(temp, n, id, kind)
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("fetching %s: %w", url, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	return nil
}

// isFile checks that a file of so many bytes has a build ID, and is whole and of a kind:
// what is kept is not asked for again. How long an ID was is not always known: one that
// was asked for may lack zeros at its end.
func isFile(f *os.File, size int64, id, kind string) error {
	want, _ := elfid.Parse([]byte(id))
	got, err := elfid.Read(f)
	switch {
	case err != nil:
		return err
	case got.IsZero():
		return fmt.Errorf("%w: it has no build ID", errWrongFile)
	case got.Padded() != want.Padded():
		return fmt.Errorf("%w: its build ID is %s", errWrongFile, got.Hex())
	}
	x, err := image.Open(f, size)
	if err == nil {
		err = x.Whole()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errDamaged, err)
	case kind == Executable && x.LacksCode():
		return fmt.Errorf("%w: debug information only", errWrongFile)
	}
	return nil
}

// patient reads as long as there is some progress.
type patient struct {
	r     io.Reader
	timer *time.Timer
	wait  time.Duration
	got   *atomic.Int64 // bytes
}

func (p *patient) Read(b []byte) (int, error) {
	p.timer.Reset(p.wait)
	n, err := p.r.Read(b)
	p.got.Add(int64(n))
	return n, err
}
