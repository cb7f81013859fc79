package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// captureTable counts the frames of each dialect and way.
type captureTable map[captureRow]captureCounts

type captureRow struct{ dialect, way string }

func (t captureTable) row(dialect, way string) captureCounts {
	row := captureRow{dialect, way}
	if _, ok := t[row]; !ok {
		t[row] = captureCounts{class: map[string]int{}, placed: map[string]int{}, mapped: map[string]int{}}
	}
	return t[row]
}

// captureCounts are frames: all by class, of threads whose process was read by class, and
// the ones of these that have no file by what the process had mapped.
type captureCounts struct{ class, placed, mapped map[string]int }

func (c captureCounts) add(class string, placed bool) {
	if c.class[class]++; placed {
		c.placed[class]++
	}
}

// share is the share in percent of the frames of files that are named or claimed.
func share(class map[string]int) float64 {
	frames := inFiles(class)
	return 100 * float64(class["named"]+class["claimed"]+class["stale"]) / float64(max(frames, 1))
}

// inFiles is how many frames are not in memory without a file.
func inFiles(class map[string]int) (frames int) {
	for name, n := range class {
		if !slices.Contains(captureNoFile, name) {
			frames += n
		}
	}
	return frames
}

// captureNoFile are the reasons of frames in memory without a file.
var captureNoFile = []string{"anonymous", "no-vma", "not-code", "vdso", "unknown"}

// captureReasons are the reasons that have a column in the manual, and the frames of tasks
// whose process was never read, for these reasons.
var captureReasons = []string{"contradicted", "ambiguous", "lost", "no-address-space", "unread"}

// captureMapped are the columns of what a process had mapped at the offset of a frame that
// has no file (captureRule.mapped).
var captureMapped = []string{"linker", "several", "one", "none"}

// captureFloors is the least share in percent of the frames which the truth can place that
// have a file. What keeps a share below 97 % is in the manual.
var captureFloors = map[captureRow]float64{
	{"hash", "--maps"}: 94.4, {"hash", "both"}: 99, {"hash of inode", "--maps"}: 99.5, {"hash of inode", "both"}: 99.5,
	{"inode", "--maps"}: 99.5, {"inode", "both"}: 99.5, {"stock", "--maps"}: 99.5, {"stock", "both"}: 99.5,
	{"odd2", "--maps"}: 98, {"odd2", "both"}: 98, {"live, inode", "--maps"}: 99.5, {"live, hash", "--maps"}: 54,
	{"hash, trace.dat", "--maps"}: 85.1, {"hash, trace.dat", "both"}: 85.2, {"inode, trace.dat", "--maps"}: 99.5,
	{"stock, trace.dat", "--maps"}: 99.5, {"hash, large", "--maps"}: 99.5, {"hash, large", "both"}: 99.5,
	{"inode, large", "--maps"}: 99.5,
}

// floors checks the shares.
func (t captureTable) floors(tb testing.TB) {
	tb.Helper()
	for row, c := range t {
		if least := captureFloors[row]; share(c.placed) < least {
			tb.Errorf("%s, %s: %.2f %% of the frames that the truth can place are named, at least %.1f %% were", row.dialect, row.way, share(c.placed), least)
		}
	}
}

// lines are the rows of the three tables of the manual that counts belong to. The second
// and the third table leave out what is alone, and the rows without a frame.
func (r captureRow) lines(c captureCounts) (lines []string) {
	counts, frames, others := c.class, inFiles(c.class), 0
	for class, n := range counts {
		if !slices.Contains(slices.Concat(captureNoFile, captureReasons, []string{"named", "claimed", "stale", "wrong"}), class) {
			others += n
		}
	}
	claimed := counts["claimed"] + counts["stale"]
	lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %.1f %% | %.1f %% |", r.dialect, r.way, thousands(frames),
		thousands(counts["named"]), thousands(claimed), thousands(counts["stale"]), share(counts), share(c.placed)))
	if r.way == "alone" || counts["named"]+claimed == frames {
		return lines
	}
	lines = append(lines, r.line(counts, captureReasons)+" "+thousands(others)+" |")
	if len(c.mapped) > 0 && c.mapped[""] == 0 {
		lines = append(lines, r.line(c.mapped, captureMapped))
	}
	return lines
}

func (r captureRow) line(counts map[string]int, columns []string) string {
	line := fmt.Sprintf("| %s | %s |", r.dialect, r.way)
	for _, name := range columns {
		line += " " + thousands(counts[name]) + " |"
	}
	return line
}

// inManual checks that the manual has these counts.
func (t captureTable) inManual(tb testing.TB) {
	tb.Helper()
	data, err := os.ReadFile("help/correctness.md")
	if err != nil {
		tb.Fatal(err)
	}
	_, manual, ok := strings.Cut(string(data), "\n## All captures\n")
	if !ok {
		tb.Fatal("the manual has no section about all captures")
	}
	manual, _, _ = strings.Cut(manual, "\n## ")
	var missing []string
	for row, counts := range t {
		if alone, ok := t[captureRow{row.dialect, "alone"}]; ok && row.way == "--sysroot" {
			if fmt.Sprint(counts) != fmt.Sprint(alone) {
				tb.Errorf("%s: with ELF files and no mappings the frames are %v, without them %v", row.dialect, counts, alone)
			}
			continue
		}
		for _, line := range row.lines(counts) {
			if !strings.Contains(manual, line+"\n") {
				missing = append(missing, line)
			}
		}
	}
	if missing != nil {
		slices.Sort(missing)
		tb.Errorf("the manual does not have\n%s", strings.Join(missing, "\n"))
	}
}
