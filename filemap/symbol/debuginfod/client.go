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
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Kinds of files.
const (
	Executable = "executable"
	DebugInfo  = "debuginfo"
)

var (
	// ErrMissing is the error of a file that no server has.
	ErrMissing = errors.New("no server has it")
	// ErrBudget is the error when the time for all requests is over.
	ErrBudget = errors.New("the time for debuginfod is used up")
)

// Options tell a Client how to work.
type Options struct {
	// URLs are the servers, in the order in which they are asked.
	URLs []string
	// Cache is the folder of what was fetched.
	Cache string
	// Timeout is for a server to begin its answer, and between its parts.
	Timeout time.Duration
	// Budget is for all requests of a Client together.
	Budget time.Duration
	// MaxSize is the most bytes a file may have, 0 for the default.
	MaxSize int64
	// Headers are sent with each request.
	Headers http.Header
}

// Defaults. libdebuginfod waits for 90 s, for each file.
const (
	DefaultTimeout = 5 * time.Second
	DefaultBudget  = 60 * time.Second
	defaultMaxSize = 4 << 30
	defaultMiss    = 600 * time.Second
	maxBuildID     = 64 // bytes, of what is asked for
)

// Client fetches files. It is not for several goroutines at once.
type Client struct {
	opt   Options
	http  *http.Client
	dead  map[string]bool
	spent time.Duration
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
	return &Client{opt: opt, http: &http.Client{}, dead: make(map[string]bool)}
}

// Fetch returns the path of a file by its build ID in hexadecimal: from the
// cache, or else from the first server that has it.
func (c *Client) Fetch(ctx context.Context, id, kind string) (string, error) {
	if b, err := hex.DecodeString(id); err != nil || len(b) == 0 || len(b) > maxBuildID || kind != Executable && kind != DebugInfo {
		return "", fmt.Errorf("asking for %s of %q: not a build ID", kind, id)
	}
	path := filepath.Join(c.opt.Cache, id, kind)
	if have, missing := c.cached(path); have {
		return path, nil
	} else if missing {
		return "", ErrMissing
	}
	start := time.Now()
	defer func() { c.spent += time.Since(start) }()
	failures := error(nil)
	for _, server := range c.opt.URLs {
		if c.dead[server] {
			continue
		}
		if c.spent+time.Since(start) >= c.opt.Budget {
			return "", ErrBudget
		}
		err := c.ask(ctx, server, id, kind, path)
		switch {
		case err == nil:
			return path, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case !errors.Is(err, ErrMissing):
			c.dead[server] = true
			failures = errors.Join(failures, err)
		}
	}
	if failures != nil {
		return "", failures
	}
	if len(c.dead) == len(c.opt.URLs) {
		return "", errors.New("no server answers")
	}
	return "", errors.Join(ErrMissing, c.remember(path))
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
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("noting in the cache that a file is missing: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
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
		return ErrMissing
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("asking debuginfod: %s: %s", url, resp.Status)
	case resp.ContentLength > c.opt.MaxSize:
		return fmt.Errorf("asking debuginfod: %s has %d bytes, more than the limit", url, resp.ContentLength)
	}
	return c.save(&patient{r: resp.Body, timer: idle, wait: c.opt.Timeout}, path, url)
}

// save writes a file into the cache, so that nobody sees a part of it.
func (c *Client) save(r io.Reader, path, url string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	defer os.Remove(temp.Name())
	n, err := io.Copy(temp, io.LimitReader(r, c.opt.MaxSize+1))
	if err == nil && (n > c.opt.MaxSize || n == 0) {
		err = fmt.Errorf("%d bytes", n)
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("fetching %s: %w", url, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("keeping a file of debuginfod: %w", err)
	}
	return nil
}

// patient reads as long as there is some progress.
type patient struct {
	r     io.Reader
	timer *time.Timer
	wait  time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	p.timer.Reset(p.wait)
	return p.r.Read(b)
}
