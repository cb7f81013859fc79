package debuginfod

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Environment reads the variables of libdebuginfod: DEBUGINFOD_URLS,
// DEBUGINFOD_CACHE_PATH, DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME, DEBUGINFOD_MAXSIZE
// and DEBUGINFOD_HEADERS_FILE. home is the user's home directory.
func Environment(getenv func(string) string, home string) (Options, error) {
	var opt Options
	for _, word := range strings.Fields(getenv("DEBUGINFOD_URLS")) {
		switch {
		case strings.HasPrefix(word, "ima:"): // how signatures are checked, for the URLs after it
		case strings.HasPrefix(word, "http://"), strings.HasPrefix(word, "https://"):
			opt.URLs = append(opt.URLs, strings.TrimSuffix(strings.TrimRight(word, "/"), "/buildid"))
		default:
			return opt, fmt.Errorf("DEBUGINFOD_URLS: %q is not an http or https URL", word)
		}
	}
	if len(opt.URLs) == 0 {
		return opt, fmt.Errorf("DEBUGINFOD_URLS names no server")
	}
	opt.Cache = cacheDir(getenv, home)
	if opt.Cache == "" {
		return opt, fmt.Errorf("no directory for the cache of debuginfod: set DEBUGINFOD_CACHE_PATH")
	}
	for _, v := range []struct {
		name string
		set  func(n int64)
	}{
		{"DEBUGINFOD_TIMEOUT", func(n int64) { opt.Timeout = seconds(n) }},
		{"DEBUGINFOD_MAXTIME", func(n int64) { opt.Budget = seconds(n) }},
		{"DEBUGINFOD_MAXSIZE", func(n int64) { opt.MaxSize = n }},
	} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return opt, fmt.Errorf("%s: %q is not a number", v.name, text)
		}
		v.set(n)
	}
	var err error
	if name := getenv("DEBUGINFOD_HEADERS_FILE"); name != "" {
		opt.Headers, err = readHeaders(name)
	}
	return opt, err
}

func seconds(n int64) time.Duration { return time.Duration(min(n, 1<<20)) * time.Second }

// cacheDir returns where libdebuginfod keeps files: the old place if it is
// there.
func cacheDir(getenv func(string) string, home string) string {
	if dir := getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return dir
	}
	if home != "" {
		old := filepath.Join(home, ".debuginfod_client_cache")
		if info, err := os.Stat(old); err == nil && info.IsDir() {
			return old
		}
	}
	if dir := getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "debuginfod_client")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".cache", "debuginfod_client")
}

// readHeaders reads lines "Name: value".
func readHeaders(name string) (http.Header, error) {
	const most = 64 << 10
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading DEBUGINFOD_HEADERS_FILE: %w", err)
	}
	h := make(http.Header)
	for line := range bytes.Lines(b[:min(len(b), most)]) {
		if key, value, ok := strings.Cut(strings.TrimSpace(string(line)), ":"); ok && key != "" {
			h.Add(key, strings.TrimSpace(value))
		}
	}
	return h, nil
}

// missTime returns how long a file that no server had is not asked for again
// (cache_miss_s in the cache).
func (c *Client) missTime() time.Duration {
	b, err := os.ReadFile(filepath.Join(c.opt.Cache, "cache_miss_s"))
	if err != nil {
		return defaultMiss
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n < 0 {
		return defaultMiss
	}
	return seconds(n)
}
