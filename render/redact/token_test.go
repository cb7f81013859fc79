package redact

import (
	"fmt"
	"strings"
	"testing"
)

// TestTokensBounded: however many strings there are, and however long ones, few are
// kept, and each has one token.
func TestTokensBounded(t *testing.T) {
	tokens := newTokens([]byte("a key of the test"))
	first := tokens.text([]byte("first"))
	most := 0
	long := strings.Repeat("x", 100_000)
	for n := range 400 {
		tokens.text(fmt.Append(nil, n, long))
		most = max(most, len(tokens.texts))
	}
	for n := range 2 * maxCached {
		tokens.text(fmt.Append(nil, n))
		tokens.address(uint64(n) << lowBits)
		kept := 0
		if n%1000 == 0 {
			for s := range tokens.texts {
				kept += len(s)
			}
			if kept != tokens.bytes || kept > maxCachedBytes+len(long) {
				t.Fatalf("%d bytes are kept, %d counted", kept, tokens.bytes)
			}
		}
	}
	if most < 2 || most > 2*maxCachedBytes/len(long) {
		t.Errorf("%d long strings are kept", most)
	}
	if len(tokens.texts) > maxCached || len(tokens.addresses) > maxCached {
		t.Errorf("%d strings and %d addresses are kept", len(tokens.texts), len(tokens.addresses))
	}
	if _, kept := tokens.texts["first"]; kept || tokens.text([]byte("first")) != first {
		t.Error("the first string has another token now, or too few came after it")
	}
}
