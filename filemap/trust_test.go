package filemap

import "testing"

// TestReasonWords: the words are part of the outputs; programs read them.
func TestReasonWords(t *testing.T) {
	words := map[Reason]string{
		Unannounced: "unannounced", Lost: "lost", Ambiguous: "ambiguous",
		Contradicted: "contradicted", Truncated: "truncated",
		NoVMA: "no-vma", Anonymous: "anonymous", NotCode: "not-code", VDSO: "vdso", NoAddressSpace: "no-address-space",
		NoIdentifier: "no-identifier", VMAOffset: "vma-offset", Forgotten: "forgotten", Unreadable: "unreadable", OnlyClaimed: "claimed", NoPath: "no-path",
	}
	if len(words) != ReasonCount-1 {
		t.Errorf("%d reasons, the list has %d", ReasonCount-1, len(words))
	}
	for r := range Reason(ReasonCount) {
		word := words[r]
		if r.String() != word {
			t.Errorf("reason %d is %q, want %q", r, r, word)
		}
		if got, ok := ParseReason(word); ok != (r != NoReason) || got != r {
			t.Errorf("ParseReason(%q) = %d, %v, want %d", word, got, ok, r)
		}
	}
	for _, word := range []string{"", " ", "Lost", "lost ", "none", "verified"} {
		if r, ok := ParseReason(word); ok || r != NoReason {
			t.Errorf("ParseReason(%q) = %d, %v", word, r, ok)
		}
	}
}

func TestTrustWords(t *testing.T) {
	words := []string{NoTrust: "", Announced: "announced", Verified: "verified", Inferred: "inferred", Late: "late", Claimed: "claimed"}
	if len(words) != TrustCount {
		t.Fatalf("%d trusts, the list has %d", TrustCount, len(words))
	}
	for trust, word := range words {
		if got := Trust(trust).String(); got != word {
			t.Errorf("trust %d is %q, want %q", trust, got, word)
		}
	}
}
