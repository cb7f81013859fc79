package recorder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOSName reads the files of a Chromebook, of Debian, and none.
func TestOSName(t *testing.T) {
	for text, want := range map[string]string{
		"NAME=Chrome OS\nPRETTY_NAME=Chrome OS\nVERSION=126\nBUILD_ID=15886.44.0\n":   "Chrome OS 15886.44.0",
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\n": "Debian GNU/Linux 12 (bookworm)",
		"\n#\nBUILD_ID='rolling'": "rolling",
		"":                        "",
	} {
		name := filepath.Join(t.TempDir(), "os-release")
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := osName(name); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := osName(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("%q without a file", got)
	}
}
