package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// decoyPrograms are arguments of decoys.c: what is planted, the decoy, workers, rounds, us
// of a hold, threads of the decoy, us of a hold there, and for how many ms.
var decoyPrograms = [...]string{
	"mutex mutex 3 60 1000 8 2000 110",
	"condvar semaphore 3 60 1000 8 2000 110",
	"many rwlock 3 240 1000 8 2000 110",
	"semaphore condvar 3 60 1000 8 1500 110",

	"rwlock mutex 3 60 1000 8 2000 110",
	"nested mutex 3 60 1000 10 1000 100",
	"pi mutex 3 60 1000 8 2000 110",
	"readers mutex 6 110 900 16 1000 110",
	"spin mutex 2 100 900 10 3000 100",
	"mutex condvar 4 50 900 12 800 100",
	"mutex semaphore 2 90 1100 8 1500 100",
	"mutex rwlock 5 40 900 16 700 100",
	"semaphore mutex 4 50 900 12 2500 110",
	"condvar mutex 4 50 900 14 1200 100",
	"condvar condvar 3 60 1000 10 2000 110",
	"rwlock rwlock 3 60 1000 10 2000 110",
	"nested condvar 4 45 1000 14 1500 100",
	"many mutex 4 160 1200 12 2000 110",
	"pi semaphore 3 60 1000 10 1000 110",
	"spin rwlock 3 70 800 14 2000 90",
}

// decoyRun is what the program says of itself.
type decoyRun struct{ values map[string]uint64 }

func decoyOf(t *testing.T, out []byte) (r decoyRun) {
	t.Helper()
	r.values = make(map[string]uint64)
	for _, word := range strings.Fields(string(out)) {
		name, value, _ := strings.Cut(word, "=")
		v, err := strconv.ParseUint(value, 0, 64)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		r.values[name] = v
	}
	return r
}

// at reports whether an address is in what is planted.
func (r *decoyRun) at(what, address string) bool {
	addr, err := strconv.ParseUint(address, 0, 64)
	return err == nil && addr >= r.values[what] && addr < r.values[what]+r.values["bytes"]
}

// answers reports whether the lock that a text begins with is in what is planted.
func (r *decoyRun) answers(what, text string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "Most: ") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if word = strings.Trim(word, "(),"); strings.HasPrefix(word, "0x") {
				return r.at(what, word)
			}
		}
	}
	return false
}

// fits reports whether a run is what it should be: the decoy is waited for clearly longer,
// and is over when the workers still have a third of their work before them.
func (r *decoyRun) fits() bool {
	return 10*r.values["loud_ns"] > 13*r.values["hot_ns"] && 3*r.values["decoy_ns"] < 2*r.values["run_ns"]
}

// TestDecoys: of programs with one bottleneck and a decoy that is waited for longer, the
// bottleneck is first by its part of the critical path, but for one in ten. Without
// USTACK_LONG it runs the first four. A run that does not fit, as the machine is busy, says
// nothing.
func TestDecoys(t *testing.T) {
	needLive(t)
	needProgram(t, "gcc")
	dir := t.TempDir()
	bin, file := filepath.Join(dir, "decoys"), filepath.Join(dir, "trace.zst")
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", bin, "../../render/futex/impact/testdata/decoys.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := decoyPrograms[:]
	if capturetest.Brief() {
		list = list[:4]
	}
	fit, byPath, byWaits, byText, misled := 0, 0, 0, 0, 0
	for _, args := range list {
		out, err := exec.Command(ustackBinary(t), append([]string{"record", "-q", "-b", "8192", "-o", file, "--", bin}, strings.Fields(args)...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		r := decoyOf(t, out)
		path, waits := firstOf(t, file)
		said := fmt.Sprintf("%-40s hot %4d ms, loud %5d ms", args, r.values["hot_ns"]/1e6, r.values["loud_ns"]/1e6)
		if !r.fits() {
			t.Logf("%s: does not fit: %v", said, r.values)
			continue
		}
		fit++
		if r.at("hot", path) {
			byPath++
		}
		if r.at("hot", waits) {
			byWaits++
		}
		text, _ := runs(t, exitOK, "futex", "-q", file)
		answer := r.answers("hot", text)
		switch byOrder := strings.Contains(strings.Join(strings.Fields(text), " "), "the order is by the critical path"); {
		case answer:
			byText++
		case byOrder: // without it the text goes by waits, as something about the path is unknown
			misled++
		}
		t.Logf("%s: first by path right %v, by waits %v, in the text %v", said, r.at("hot", path), r.at("hot", waits), answer)
		if !r.at("hot", path) {
			text, _ := runs(t, exitOK, "futex", "-q", "--impact", file)
			t.Logf("%v\n%s", r.values, text)
		}
	}
	t.Logf("of %d programs, of which %d fit, the bottleneck is first in %d by the critical path, in %d by all waits, in %d of the texts", len(list), fit, byPath, byWaits, byText)
	if wrong := max(fit-byPath, misled); wrong > max(fit/10, 1) || 2*byText < fit {
		t.Errorf("wrong: %d by path, %d of the texts that go by it", fit-byPath, misled)
	}
}

// firstOf returns the addresses of the lock that is first by its part of the critical path,
// and of the one that is by all waits.
func firstOf(t *testing.T, file string) (path, waits string) {
	t.Helper()
	out, _ := runs(t, exitOK, "futex", "-q", "--json", "--top=0", "--impact", file)
	var d struct {
		impactDocument
		Locks []struct{ Address string }
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Impact.Error != "" || len(d.Impact.Locks) == 0 || len(d.Locks) == 0 {
		t.Fatalf("%q, %d and %d locks", d.Impact.Error, len(d.Impact.Locks), len(d.Locks))
	}
	return d.Impact.Locks[0].Address, d.Locks[0].Address
}
