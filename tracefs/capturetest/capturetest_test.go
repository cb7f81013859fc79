package capturetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCaptures: an archive's files are there, with what they hold.
func TestCaptures(t *testing.T) {
	const edge = "../../testdata/captures/hash/edge2_raw/"
	if text := string(Read(t, edge+"trace.txt.zst")); !strings.HasPrefix(text, "# tracer: nop\n") {
		t.Errorf("the text begins with %.40q", text)
	}
	pages, err := filepath.Glob(filepath.Join(Unpack(t, edge+"raw.tar.zst"), "raw*.bin"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %q, %v", pages, err)
	}
	const page = 4096
	if info, err := os.Stat(pages[0]); err != nil || info.Size()%page != 0 {
		t.Errorf("%v, %v", info, err)
	}
}
