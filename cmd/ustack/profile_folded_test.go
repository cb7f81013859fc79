package main

import (
	"html"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFoldedFlamegraph: what a flame graph's script draws of the folded lines has
// every function at its place, as wide as the lines say. The script is that of
// stackvis (npm install -g stackvis), which wants commas between functions.
func TestFoldedFlamegraph(t *testing.T) {
	bin, err := exec.LookPath("stackvis")
	if err != nil {
		t.Skip("there is no stackvis to draw with")
	}
	folded := profileRun(t, "replay", "-q", "--format=folded", "--symbols", "--sysroot", truthRoot(t),
		"../../testdata/captures/hash/pipe_default/trace.txt.zst")
	cmd := exec.Command(bin, "collapsed", "flamegraph-svg")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(folded, ",", "."), ";", ","))
	svg, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	boxes := make(map[string]int64) // by path
	for line := range strings.Lines(folded) {
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[at:]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Split(strings.ReplaceAll(line[:at], ",", "."), ";")
		for i := range path {
			boxes[strings.Join(path[:i+1], ";")] += n
		}
	}
	var want, got []string
	for path, n := range boxes {
		want = append(want, path[strings.LastIndexByte(path, ';')+1:]+" "+strconv.FormatInt(n, 10))
	}
	for _, m := range regexp.MustCompile(`onmouseover="s\(&quot;(.*?) \((\d+) samples, `).FindAllStringSubmatch(string(svg), -1) {
		if name := html.UnescapeString(html.UnescapeString(m[1])); name != "all samples" {
			got = append(got, name+" "+m[2])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	// What is too narrow to be seen is left out.
	got, want = slices.Compact(got), slices.Compact(want)
	if i := slices.IndexFunc(got, func(s string) bool { _, ok := slices.BinarySearch(want, s); return !ok }); i >= 0 {
		t.Errorf("%s is drawn, but not in the lines", got[i])
	}
	if len(got) < 100 || len(got) < len(want)*9/10 {
		t.Errorf("%d boxes of %d", len(got), len(want))
	}
}
