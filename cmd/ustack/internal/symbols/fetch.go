//go:build !device

package symbols

import (
	"context"
	"fmt"
	"io"
	"os"

	"ustack/filemap/symbol/debuginfod"
)

// fetcher returns a function that fetches files from debuginfod servers. Ctrl-C
// ends the program while it waits for one.
func fetcher(home string, stderr io.Writer) (func(id, what string) (string, error), error) {
	opt, err := debuginfod.Environment(os.Getenv, home)
	if err != nil {
		return nil, fmt.Errorf("--debuginfod: %w", err)
	}
	client := debuginfod.New(opt)
	return func(id, what string) (string, error) {
		if !client.Has(id, what) {
			fmt.Fprintf(stderr, "ustack: asking debuginfod for the %s of %s\n", what, id)
		}
		return client.Fetch(context.Background(), id, what)
	}, nil
}
