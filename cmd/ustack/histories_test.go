package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/histgen"
	"ustack/tracefs/capturetest"
)

// histories is how many stacks of each kind of history are checked.
var histories = flag.Int("histories", 0, "stacks of each random history that are checked (150, with USTACK_LONG=1 3000)")

// TestHistories: whatever a hostile machine does, no frame has a wrong file.
// Claims may be wrong, and are counted.
func TestHistories(t *testing.T) {
	t.Parallel()
	stacks := *histories
	if stacks == 0 && capturetest.Brief() {
		stacks = 150
	} else if stacks == 0 {
		stacks = 3000
	}
	dialects := map[string]histgen.Dialect{"hash": histgen.Hash, "byinode": histgen.ByInode, "inode": histgen.Inode}
	for name, dialect := range dialects {
		for k := range 16 {
			cfg := histgen.Config{Seed: uint64(k), Dialect: dialect, Stacks: stacks, First: k&1 != 0,
				LoseTrace: k&2 != 0, LoseLog: k&4 != 0, Raw: k&8 != 0}
			t.Run(fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
				t.Parallel()
				checkHistory(t, cfg)
			})
		}
	}
}

func checkHistory(t *testing.T, cfg histgen.Config) {
	var trace, log bytes.Buffer
	truth, err := histgen.Write(&trace, &log, cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tracePath, logPath := filepath.Join(dir, "trace.txt"), filepath.Join(dir, "spaces.txt")
	for path, b := range map[string][]byte{tracePath: trace.Bytes(), logPath: log.Bytes()} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"--maps", logPath}, nil} {
		h := &historyCheck{t: t, truth: truth.Stacks, counts: make(map[string]int)}
		var stdout, stderr bytes.Buffer
		all := append([]string{"replay", "-q", "--format=json"}, append(args, tracePath)...)
		if code := run(all, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", all, code, stderr.String())
		}
		h.read(&stdout)
		t.Logf("%d frames, maps %v: %v", truth.Frames, args != nil, h.counts)
	}
}

// historyCheck holds what replay says against the truth.
type historyCheck struct {
	t      *testing.T
	truth  map[int]histgen.Stack
	counts map[string]int
	wrong  int
}

func (h *historyCheck) read(out *bytes.Buffer) {
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<22)
	for in.Scan() {
		var e labEvent
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			h.t.Fatalf("%v: %s", err, in.Text())
		}
		_, index, ok := strings.Cut(e.Args, "val3: 0x")
		if !ok || len(e.Stack) == 0 {
			continue
		}
		truth, ok := h.truth[int(hexValue(h.t, strings.TrimSuffix(index, ")")))]
		if !ok || len(truth.Frames) != len(e.Stack) {
			h.t.Fatalf("%s: %d frames, want %d", e.TS, len(e.Stack), len(truth.Frames))
		}
		for i := range e.Stack {
			var raw *histgen.Frame
			if i < len(truth.Raw) {
				raw = &truth.Raw[i]
			}
			h.frame(&e, i, &truth.Frames[i], raw)
		}
	}
}

// frame checks a frame: its file is that of the time of unwinding or, with the
// same offset, that of the call's beginning, when its raw stack was taken.
func (h *historyCheck) frame(e *labEvent, i int, at, raw *histgen.Frame) {
	f := &e.Stack[i]
	if f.Path == "" {
		switch {
		case at.Exec:
			h.counts["code: "+f.Reason]++
		default:
			h.counts["other: "+f.Reason]++
		}
		return
	}
	if h.is(f, at) || raw != nil && h.is(f, raw) {
		h.counts[f.Trust]++
		if !at.Exec && (raw == nil || !raw.Exec) {
			h.counts["data "+f.Trust]++
		}
		return
	}
	h.counts["WRONG "+f.Trust]++
	if f.Trust != "claimed" {
		if h.wrong++; h.wrong < 4 {
			h.t.Errorf("%s: %s %d, frame %d: %+v, want %+v", e.TS, e.Comm, e.PID, i, *f, *at)
		}
	}
}

func (h *historyCheck) is(f *labFrame, want *histgen.Frame) bool {
	return strings.TrimSuffix(f.Path, " (deleted)") == want.Path && hexValue(h.t, f.Offset) == want.Offset &&
		(f.BuildID == "" || f.BuildID == hex.EncodeToString(want.BuildID[:]))
}
