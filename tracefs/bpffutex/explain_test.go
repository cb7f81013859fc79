//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestExplainHelper: Linux 5.10 lacks a helper, and its verifier names only the number. The
// message says which version has it.
func TestExplainHelper(t *testing.T) {
	for last, want := range map[string]bool{"invalid func unknown#158": true, "R1 type=inv expected=fp": false} {
		err := explain(fmt.Errorf("loading the BPF programs: %w", &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"0: (85) call", last}}))
		if says := strings.Contains(err.Error(), "it takes Linux 5.11"); says != want {
			t.Errorf("%s: %v", last, err)
		}
	}
}
