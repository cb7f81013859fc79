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

// histories is how many stacks of each kind of history are checked, historySeed the first
// of the seeds.
var (
	histories   = flag.Int("histories", 0, "stacks of each random history that are checked (60, with USTACK_LONG=1 1500)")
	historySeed = flag.Uint64("history-seed", 0, "the seed of the first random history")
)

// historyKinds is how many kinds of histories there are of each dialect; those from
// polledKinds on have the dump of a poller, too.
const (
	historyKinds = 24
	polledKinds  = 16
)

// TestHistories: whatever a hostile machine does, no frame has a wrong file.
// Claims may be wrong, and are counted. The traces are replayed alone, with the log of the
// side band, and with the dump of the poller. A dump without notes of readings does not show
// where the poller has paused: what such a dump says is late, and can be wrong then.
func TestHistories(t *testing.T) {
	t.Parallel()
	stacks := *histories
	if stacks == 0 && capturetest.Brief() {
		stacks = 60
	} else if stacks == 0 {
		stacks = 1500
	}
	dialects := map[string]histgen.Dialect{"hash": histgen.Hash, "byinode": histgen.ByInode, "inode": histgen.Inode, "stock": histgen.Stock}
	for name, dialect := range dialects {
		for k := range historyKinds {
			cfg := historyConfig(dialect, k, stacks)
			t.Run(fmt.Sprintf("%s/%d", name, k), func(t *testing.T) {
				t.Parallel()
				checkHistory(t, cfg)
			})
		}
	}
}

// historyConfig is the configuration of a kind of history.
func historyConfig(dialect histgen.Dialect, k, stacks int) histgen.Config {
	cfg := histgen.Config{Seed: *historySeed + uint64(k), Dialect: dialect, Stacks: stacks, First: k&1 != 0,
		LoseTrace: k&2 != 0, LoseLog: k&4 != 0, Raw: k&8 != 0, Others: k%3 != 0, Hasty: k%5 < 3}
	if k >= polledKinds {
		cfg.Poll, cfg.IDs, cfg.Notes, cfg.LoseLog, cfg.Raw = true, k&1 != 0, k&4 != 0, false, false
		cfg.First = k&2 != 0
		cfg.Pauses = cfg.Notes || k&2 != 0
	}
	return cfg
}

func checkHistory(t *testing.T, cfg histgen.Config) {
	var trace, log bytes.Buffer
	truth, err := histgen.Write(&trace, &log, cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tracePath, logPath, dump := filepath.Join(dir, "trace.txt"), filepath.Join(dir, "spaces.txt"), filepath.Join(dir, "maps")
	if err := os.Mkdir(dump, 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{tracePath: trace.Bytes(), logPath: log.Bytes()}
	for name, b := range truth.Dump {
		files[filepath.Join(dump, name)] = b
	}
	for path, b := range files {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ways := map[string][]string{"alone": nil, "log": {"--maps", logPath}}
	if cfg.Poll {
		ways["dump"] = []string{"--maps", dump}
	}
	for way, args := range ways {
		h := &historyCheck{t: t, truth: truth.Stacks, counts: make(map[string]int), way: way, guess: "claimed"}
		if way == "dump" && cfg.Pauses && !cfg.Notes {
			h.guess = "claimed late"
		}
		var stdout, stderr bytes.Buffer
		all := append([]string{"replay", "-q", "--format=json"}, append(args, tracePath)...)
		if code := run(all, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", all, code, stderr.String())
		}
		h.read(&stdout)
		t.Logf("%s: %d frames: %v", way, truth.Frames, h.counts)
	}
}

// historyCheck holds what replay says against the truth.
type historyCheck struct {
	t      *testing.T
	truth  map[int]histgen.Stack
	counts map[string]int
	wrong  int
	way    string
	// guess are the words of trust of files that may be wrong.
	guess string
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
	if !strings.Contains(h.guess, f.Trust) {
		if h.wrong++; h.wrong < 4 {
			h.t.Errorf("%s: %s: %s %d, frame %d: %+v, want %+v", h.way, e.TS, e.Comm, e.PID, i, *f, *at)
		}
	}
}

func (h *historyCheck) is(f *labFrame, want *histgen.Frame) bool {
	return strings.TrimSuffix(f.Path, " (deleted)") == want.Path && hexValue(h.t, f.Offset) == want.Offset &&
		(f.BuildID == "" || f.BuildID == hex.EncodeToString(want.BuildID[:]))
}
