//go:build !device

package symbols

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"ustack/filemap/symbol/debuginfod"
	"ustack/render/progress"
)

// fetcher returns a function that fetches files from debuginfod servers. Ctrl-C
// ends the program while it waits for one.
func fetcher(home string, line *progress.Line) (func(id, what string) (string, error), error) {
	opt, err := debuginfod.Environment(os.Getenv, home)
	if err != nil {
		return nil, fmt.Errorf("--debuginfod: %w", err)
	}
	opt.Asked = func(server, id, what string, how func() (got, size int64)) func() {
		return line.Begin(fmt.Sprintf("fetching the %s of %.8s from %s", what, id, host(server)), how).End
	}
	client := debuginfod.New(opt)
	return func(id, what string) (string, error) {
		return client.Fetch(context.Background(), id, what)
	}, nil
}

// host returns the name of a server, without what its URL may have for it alone.
func host(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "a server"
	}
	return u.Host
}
