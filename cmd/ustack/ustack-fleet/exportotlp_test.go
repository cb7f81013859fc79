package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/ustack-fleet/profiles"

	"ustack/cmd/ustack/internal/fleet"
)

// TestExportOTLP: a file has what a server gets, a report that is there stays, and one that cannot
// be read leaves nothing.
func TestExportOTLP(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	report := "../../../testdata/captures/hash/edge/trace.txt.zst"
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("no trace"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran(t, command.OK, "export", "--format=otlp", "-o", dir, report)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], otlpSuffix) {
		t.Fatalf("%q, %v", names, err)
	}
	body, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyOfReport(report)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.ParseExport([]string{"-o", dir, report}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	c, err := collect(&f.Reports, report, key.key, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := profiles.OTLP(profileOf(c, true)); err != nil || !bytes.Equal(body, want) {
		t.Errorf("%d bytes, want %d, %v", len(body), len(want), err)
	}
	got := received{t: t, places: make(map[string]bool)}
	if err := got.otlp(body); err != nil || got.ns == 0 || len(got.places) == 0 {
		t.Errorf("%d ns at %d places, %v", got.ns, len(got.places), err)
	}
	_, said := ran(t, command.Failure, "export", "--format=otlp", "-o", dir, report, bad)
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 || !strings.Contains(said, "1 were there already") {
		t.Errorf("%q: %s", names, said)
	}
	// Another one at the same time is refused, and what a killed one has left goes.
	left := filepath.Join(dir, newPrefix+"killed")
	writeFile(t, left, []byte("half"))
	other := store{dir: dir}
	if err := other.take(); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if exists(left) {
		t.Error("what a killed export has left is there")
	}
	if _, said := ran(t, command.Failure, "export", "--format=otlp", "-o", dir, report); !strings.Contains(said, "another ustack export") {
		t.Errorf("two exports at once: %s", said)
	}
}
