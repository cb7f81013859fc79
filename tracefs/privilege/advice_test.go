package privilege

import (
	"os/exec"
	"testing"
)

// TestQuote: a shell gets the word that was meant.
func TestQuote(t *testing.T) {
	for _, word := range []string{"/usr/bin/ustack", "/a b/c", "it's", "$(x)`y`", "a;b", "*", "", "-n", "ü", "a\nb"} {
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+Quote(word)).Output()
		if err != nil || string(out) != "<"+word+">" {
			t.Errorf("%q is %s to a shell: %q (%v)", word, Quote(word), out, err)
		}
	}
	if Quote("/usr/bin/ustack") != "/usr/bin/ustack" {
		t.Error("quoted for nothing")
	}
}
