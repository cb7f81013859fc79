package report

import (
	"strings"
	"testing"

	"ustack/render/futex"
)

// TestVerdictWords: all cases and facts have words, each its own.
func TestVerdictWords(t *testing.T) {
	said := make(map[string]bool)
	own := func(what string, i int, text string) {
		t.Helper()
		if text == "" || said[text] || strings.Contains(text, "%!") {
			t.Errorf("%s %d: %q", what, i, text)
		}
		said[text] = true
	}
	tasks := []futex.Task{{TID: 1, Comm: "one"}, {TID: 2}}
	for c := futex.NothingHangs; c <= futex.Unexplained; c++ {
		v := futex.Verdict{Case: c, Tasks: tasks, Count: 2, Number: 3}
		text, _ := verdict(&v, false)
		own("case", int(c), text)
		v.Ended = true
		text, _ = verdict(&v, false)
		own("case that has ended", int(c), text)
	}
	if text, proof := verdict(&futex.Verdict{}, false); text != "" || proof != nil {
		t.Errorf("of nothing: %q, %q", text, proof)
	}
	lock := futex.LockName{Kind: futex.Mutex, Name: "0x10"}
	for k := futex.WaitsSince; k <= futex.HolderUnseen; k++ {
		f := futex.Fact{Kind: k, Task: tasks[0], At: 1_000_000_000, Lock: lock, Held: lock}
		_, proof := verdict(&futex.Verdict{Proof: []futex.Fact{f, {LastUse: &f}}}, true)
		own("fact", int(k), proof[0])
		if !strings.HasSuffix(proof[1], "; "+proof[0]) {
			t.Errorf("the last use: %q", proof[1])
		}
	}
}
