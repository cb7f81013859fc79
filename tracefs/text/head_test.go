package text

import "testing"

// TestSavedHead: the head of a trace that was saved with address spaces has their
// identifier, and nothing else.
func TestSavedHead(t *testing.T) {
	const id = "0123456789abcdef"
	for in, want := range map[string]string{
		SavedHead(id): id, Head: "", SavedHead(id) + "more\n": id,
		"# ustack: escaped=1 saved=" + id + "0\n": "error", "# ustack: escaped=1 saved=" + id[1:] + "\n": "error",
		"# ustack: escaped=1 saved=" + id[1:] + "X\n": "error", "# ustack: escaped=2 saved=" + id + "\n": "error",
		"# ustack: escaped=1 other=" + id + "\n": "error", "# ustack: escaped=1 \n": "error",
	} {
		n, more, err := CutHead([]byte(in), false)
		got := SavedID([]byte(in[:n]))
		if err != nil {
			got = "error"
		}
		if got != want || more || err == nil && n == 0 {
			t.Errorf("%q: %d bytes, %q, more %v, %v, want %q", in, n, got, more, err, want)
		}
		for cut := range len(in) {
			if n, more, err := CutHead([]byte(in[:cut]), false); err == nil && !more && n == 0 && cut > 0 {
				t.Errorf("%q: the text ends there", in[:cut])
			}
		}
	}
}
