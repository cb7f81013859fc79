package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamelessFile: a file whose path is longer than perf reports ("//toolong"), or than is
// kept, is no file without a path: the frame has a reason.
func TestNamelessFile(t *testing.T) {
	const trace = "# ustack: escaped=1 saved=0123456789abcdef\n             app-7       [000] .....     2.000000: sys_getppid()\n" +
		"             app-7       [000] .....     2.000001: <user stack trace>\n =>  <0000000000401010>\n"
	const spaces = "# ustack side band 2 clock=mono\ntrace 0.000000000 0123456789abcdef\nfork 1.000000000 1 7\nmap 1.100000000 7 401000-402000 r-xp 1000 fe:00 5 0 file - "
	const dump = "### t=1 pid=7 comm=app exe=/x\n00401000-00402000 r-xp 00001000 fe:00 12                         "
	own := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(own, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"none": "", "long": "/" + strings.Repeat("x", 20_000), "usual": "/x", "longer than PATH_MAX": "/" + strings.Repeat("d/", 3000)} {
		for maps, data := range map[string]string{"spaces.txt": spaces + path + "\nuntil 3.000000000\n", "7.maps": dump + path + "\n"} {
			file := filepath.Join(t.TempDir(), maps)
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, out := range [][]byte{spoofReplay(t, "--build-id=none", "--maps", file, own), spoofReplay(t, "--format=json", "--maps", file, own)} {
				named := bytes.Contains(out, []byte("path="+path+"\n")) || bytes.Contains(out, []byte(`"path":"`+path+`"`))
				if path == "" || len(path) > 16<<10 {
					if !bytes.Contains(out, []byte("no-identifier")) || bytes.Contains(out, []byte("path")) {
						t.Errorf("%s, %s: %.300s", name, maps, out)
					}
				} else if !named {
					t.Errorf("%s, %s: %.300s", name, maps, out)
				}
			}
		}
	}
}
