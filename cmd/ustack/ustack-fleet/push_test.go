package main

import (
	"testing"
)

// TestRemembered: the stacks that a server has are forgotten before they take all memory.
func TestRemembered(t *testing.T) {
	p := &pusher{sent: make(map[uint64]bool)}
	for i := range uint64(maxSent + 10) {
		p.remember([]uint64{i})
	}
	if len(p.sent) != 10 || !p.sent[maxSent+9] {
		t.Errorf("%d stacks are remembered", len(p.sent))
	}
}
