//go:build device

package symbols

import (
	"errors"

	"ustack/render/progress"
)

// errNoNetwork: the device build leaves out net/http and crypto/tls, a quarter
// of the program, which nothing else needs.
var errNoNetwork = errors.New("--debuginfod: this build for devices (go build -tags device) has no network; " +
	"run ustack needs here, and name functions on a machine that has the files")

// fetcher returns errNoNetwork.
func fetcher(string, *progress.Line) (func(id, what string) (string, error), error) {
	return nil, errNoNetwork
}
