package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
)

// bpfStackmap is a stack map of Linux 7.3, with what its program had mapped.
const bpfStackmap = "../../testdata/captures/bpf-stackmap"

// exeOfMap is the build ID of /opt/labs/wl/exe1 in it.
const exeOfMap = "bc84a7acdb6a2cd1def86b3cf4f667565f86e176"

// bpftoolDump writes a map as bpftool map dump -j does: records of a key and a value.
func bpftoolDump(t testing.TB, records []byte, key, value int) []byte {
	t.Helper()
	var out bytes.Buffer
	array := func(b []byte) {
		for i, c := range b {
			fmt.Fprintf(&out, "%c\"0x%02x\"", "[,"[min(i, 1)], c)
		}
		out.WriteByte(']')
	}
	for n := 0; len(records) >= key+value; n++ {
		out.WriteString([]string{`[{"key":`, `,{"key":`}[min(n, 1)])
		array(records[:key])
		out.WriteString(`,"value":`)
		array(records[key : key+value])
		out.WriteByte('}')
		records = records[key+value:]
	}
	return append(out.Bytes(), "]\n"...)
}

// stackmapDump writes the capture to a file, as a dump.
func stackmapDump(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(bpfStackmap + "/stackmap.bin")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "stacks.json")
	if err := os.WriteFile(name, bpftoolDump(t, b, 4, 16*32), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// mapFrame is a frame of the output, as far as it matters here.
type mapFrame struct{ Offset, Path, BuildID, Trust, Reason string }

// mapStack is a stack of it.
type mapStack struct {
	Count *uint64
	Stack []mapFrame
}

// mapStacks returns the stacks of an output of JSON lines.
func mapStacks(t testing.TB, out string) (list []mapStack) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(out, `"build_id"`, `"BuildID"`)) {
		var s struct {
			Type string
			mapStack
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if s.Type == "stack" {
			list = append(list, s.mapStack)
		}
	}
	return list
}

// programOfMap puts a program with a build ID below a sysroot.
func programOfMap(t testing.TB, id, root, name string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	own, err := elfid.Read(bytes.NewReader(b))
	if err != nil || own.Len() != filemap.BuildIDSize {
		t.Skipf("this program has no build ID to be replaced: %s, %v", own.Hex(), err)
	}
	want, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	old := own.Padded()
	name = filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, bytes.ReplaceAll(b, old[:], want), 0o777)); err != nil {
		t.Fatal(err)
	}
}

// TestStackMap: each frame of the capture is in the file that the program had mapped there, at
// an offset that it had mapped as code; without the file there is the build ID and a reason.
func TestStackMap(t *testing.T) {
	dump, root := stackmapDump(t), t.TempDir()
	maps, err := os.ReadFile(bpfStackmap + "/maps-72.txt")
	if err != nil {
		t.Fatal(err)
	}
	mapped := func(path, offset string) bool {
		var off uint64
		if _, err := fmt.Sscanf(offset, "0x%x", &off); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(strings.Split(string(maps), "\n"), func(line string) bool {
			m, err := procmap.ParseLine([]byte(line))
			return err == nil && m.Name == path && m.Perms&procmap.Exec != 0 && off >= m.Offset && off < m.Offset+m.End-m.Start
		})
	}
	named := 0
	for _, placed := range []bool{false, true} {
		if placed {
			programOfMap(t, exeOfMap, root, "/opt/labs/wl/exe1")
		}
		out := profileRun(t, "replay", "-q", "--format=json", "--sysroot", root, dump)
		stacks := mapStacks(t, out)
		if len(stacks) != 2 || len(stacks[0].Stack) != 5 || len(stacks[1].Stack) != 5 {
			t.Fatalf("stacks of the capture: %s", out)
		}
		for _, f := range slices.Concat(stacks[0].Stack, stacks[1].Stack) {
			switch {
			case f.Path == "":
				if f.Reason != "no-path" || f.BuildID == "" || placed && f.BuildID == exeOfMap {
					t.Errorf("placed %v: %+v", placed, f)
				}
			case f.Trust != "late" || f.BuildID == exeOfMap && !mapped(f.Path, f.Offset):
				t.Errorf("placed %v: %+v was not mapped", placed, f)
			default:
				named++
			}
		}
	}
	if named < 8 { // the program's; libc is what this machine has, or not
		t.Errorf("%d frames have a file", named)
	}
	want := []string{"0x1178", "0x11cf", "0x1206", "0x126d", "0x2724a"}
	for k, f := range mapStacks(t, profileRun(t, "replay", "-q", "--format=json", dump))[0].Stack {
		if f.Offset != want[k] {
			t.Errorf("frame %d is at %s, not %s", k, f.Offset, want[k])
		}
	}
}

// TestStackMapHole: an offset that the kernel made of an address before a mapping has no file, whatever
// the build ID is of.
func TestStackMapHole(t *testing.T) {
	root, name := t.TempDir(), filepath.Join(t.TempDir(), "holes.txt")
	programOfMap(t, exeOfMap, root, "/opt/labs/wl/exe1")
	text := "@[\n    " + exeOfMap + " 0xffffaa7f391e0000\n    " + exeOfMap + " 0x1178\n]: 3\n"
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	stack := mapStacks(t, profileRun(t, "replay", "-q", "--format=json", "--sysroot", root, name))[0].Stack
	if hole := stack[0]; hole.Path != "" || hole.Reason != "no-vma" || stack[1].Path != "/opt/labs/wl/exe1" {
		t.Errorf("%+v", stack)
	}
}

// TestStackMapText: text that was made of a map is read back, with the same result, and so is
// a dump that was compressed or comes from a pipe.
func TestStackMapText(t *testing.T) {
	dump, root := stackmapDump(t), t.TempDir()
	programOfMap(t, exeOfMap, root, "/opt/labs/wl/exe1")
	for _, sysroot := range []string{root, t.TempDir()} {
		once := profileRun(t, "replay", "-q", "--sysroot", sysroot, dump)
		name := filepath.Join(t.TempDir(), "once.txt")
		if err := os.WriteFile(name, []byte(once), 0o666); err != nil {
			t.Fatal(err)
		}
		if again := profileRun(t, "replay", "-q", name); again != once {
			t.Errorf("replayed:\n%sthen:\n%s", once, again)
		}
		var stdout, stderr bytes.Buffer
		if code := run([]string{"replay", "-q", "--stitch"}, strings.NewReader(once), &stdout, &stderr); code != exitOK || stdout.String() != once {
			t.Errorf("%d, %s, %s", code, stdout.String(), stderr.String())
		}
	}
	b, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	want := profileRun(t, "replay", "-q", dump)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"replay", "-q", "-"}, bytes.NewReader(b), &stdout, &stderr); code != exitOK || stdout.String() != want {
		t.Errorf("%d, %s, %s", code, stdout.String(), stderr.String())
	}
	escaped := profileRun(t, "replay", "-q", "--escape", "--sysroot", root, dump)
	name := filepath.Join(t.TempDir(), "escaped.txt")
	if err := os.WriteFile(name, []byte(escaped), 0o666); err != nil {
		t.Fatal(err)
	}
	if again := profileRun(t, "replay", "-q", name); again != escaped || !strings.Contains(escaped, "path=/opt/labs/wl/exe1") {
		t.Errorf("replayed:\n%sthen:\n%s", escaped, again)
	}
}

// TestStackMapWeights: stacks count as often as a map says, in pictures and JSON.
func TestStackMapWeights(t *testing.T) {
	dump := stackmapDump(t)
	var counts []byte
	for _, c := range []struct{ pid, stack, count uint32 }{{7, 345, 40}, {8, 345, 2}, {7, 9, 5}} {
		counts = binary.NativeEndian.AppendUint32(counts, c.pid)
		counts = binary.NativeEndian.AppendUint32(counts, c.stack)
		counts = binary.NativeEndian.AppendUint64(counts, uint64(c.count))
	}
	weights := filepath.Join(t.TempDir(), "counts.json")
	if err := os.WriteFile(weights, bpftoolDump(t, counts, 8, 8), 0o666); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--sysroot", t.TempDir(), "--weights", weights, "--weights-key=4", dump}
	stacks := mapStacks(t, profileRun(t, append([]string{"replay", "-q", "--format=json"}, flags...)...))
	if len(stacks) != 2 || stacks[0].Count == nil || *stacks[0].Count != 42 || stacks[1].Count != nil {
		t.Errorf("%+v", stacks)
	}
	folded := profileRun(t, append([]string{"replay", "-q", "--format=folded"}, flags...)...)
	if lines := strings.Split(folded, "\n"); len(lines) != 2 || !strings.HasSuffix(lines[0], " 43") {
		t.Errorf("%q", folded) // both stacks are the same but for their files' offsets
	}
	for _, wrong := range [][]string{
		{"--weights", weights, dump}, {"--weights-key=4", dump}, {"--weights", dump, dump}, {"--bpf-map=id:1", dump}, {"--bpf-map=x"},
		{"--weights", weights, "--weights-key=4", bpfStackmap + "/maps-72.txt"}, {"--bpf-map=pin:/none"}, {"--bpf-map=id:x"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"replay", "-q"}, wrong...), strings.NewReader(""), &stdout, &stderr); code == exitOK || stdout.Len() > 0 {
			t.Errorf("%q: %d, %s", wrong, code, stdout.String())
		}
	}
}

// TestStackMapNeeds: needs lists the build IDs that have no path.
func TestStackMapNeeds(t *testing.T) {
	out := profileRun(t, "needs", "--sysroot", t.TempDir(), stackmapDump(t))
	if !strings.Contains(out, exeOfMap+" executable 8 -\n") {
		t.Errorf("%q", out)
	}
}
