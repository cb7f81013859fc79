package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
)

// openPart opens a directory of tables, and begins a part.
func openPart(t *testing.T, dir string) (*store, *part) {
	t.Helper()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.newPart()
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// fill makes tables of a few reports: device, operating system, and times of waits by lock.
func fill(t *testing.T, dir string) {
	t.Helper()
	s, p := openPart(t, dir)
	defer s.Close()
	for i, r := range []struct {
		device, os string
		waits      map[string][]int64
	}{
		{"d1", "A", map[string][]int64{"pool": {100, 200}, "log": {10}}},
		{"d2", "A", map[string][]int64{"pool": {300}}},
		{"d2", "A", map[string][]int64{"pool": {50}}},
		{"d3", "B", map[string][]int64{"pool": {100}, "new": {900, 1, 1}}},
		{"d4", "C", map[string][]int64{"log": {5000}}},
	} {
		c := newCollector()
		c.head["boot_id"], c.head["os"] = r.device, r.os
		if r.device == "d2" {
			c.head["duplicates"] = []string{1: "3", 2: "4"}[i]
		}
		for _, name := range []string{"pool", "log", "new"} {
			for _, ns := range r.waits[name] {
				row := sampleRow{Event: "futex wait", NS: &ns, Weight: 1}
				row.of(&lock{kind: "mutex", name: name, buildID: "ab"}, nil)
				c.samples = append(c.samples, row)
			}
		}
		none := sampleRow{Event: "open", Weight: 7}
		c.samples = append(c.samples, none)
		c.finish(uint64(i+1), r.device, now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
}

// TestAnswer asks each question of tables whose answers can be seen.
func TestAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's")
	fill(t, dir)
	const top = "total_ns,waits,devices,percent,p99_ns,kind,lock,file,build_id,offset,function\n"
	log, pool, fresh := "5010,2,2,50,5055,mutex,log,,,,\n", "750,5,3,75,303,mutex,pool,,,,\n", "902,3,1,25,903,mutex,new,,,,\n"
	for args, want := range map[string]string{
		"top":              top + log + fresh + pool,
		"top --by=devices": top + pool + log + fresh,
		"top --by=p99":     top + log + fresh + pool,
		"top --by=waits":   top + pool + fresh + log,
		"top --top=1":      top + log,
		"top --exact":      top + "5010,2,2,50,5000,mutex,log,,,,\n902,3,1,25,900,mutex,new,,,,\n750,5,3,75,300,mutex,pool,,,,\n",
		"devices --top=2":  "device,os,kernel,reports,duplicates,events,lost,waits,total_ns\nd1,A,,1,0,0,0,0,0\nd2,A,,2,7,0,0,0,0\n",
		"diff --a=A --b=B": "a_ns,b_ns,a_devices,b_devices,kind,lock,file,build_id,offset,function\n0,902,0,1,mutex,new,,,,\n5,0,1,0,mutex,log,,,,\n325,100,2,1,mutex,pool,,,,\n",
	} {
		got, _ := ran(t, command.OK, append(append([]string{"fleet"}, strings.Fields(args)...), "--format=csv", dir)...)
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", args, got, want)
		}
	}
	if _, messages := ran(t, command.Failure, "fleet", "diff", "--a=A", "--b=x", dir); !strings.Contains(messages, `no device has the operating system "x"`) {
		t.Error(messages)
	}
	if got, _ := ran(t, command.OK, "fleet", "diff", "--a=A", "--b=o'B", "--sql", dir); !strings.Contains(got, "'o''B'") || !strings.Contains(got, "it''s/part-*") {
		t.Errorf("names are not quoted: %s", got)
	}
	if _, messages := ran(t, command.Failure, "fleet", "top", t.TempDir()); !strings.Contains(messages, "ustack export -o") {
		t.Error(messages)
	}
}

func now() time.Time { return time.Unix(1_800_000_000, 0) }

// TestOlderDevices: tables without the columns that came later are read, and others are not.
func TestOlderDevices(t *testing.T) {
	type older struct {
		Report    uint64 `parquet:"report"`
		Device    string `parquet:"device"`
		Name      string `parquet:"name"`
		Recording uint64 `parquet:"recording"`
		OS        string `parquet:"os,dict"`
		Kernel    string `parquet:"kernel,dict"`
		Arch      string `parquet:"arch,dict"`
		Ustack    string `parquet:"ustack,dict"`
		Begun     *int64 `parquet:"begun,optional,timestamp(nanosecond)"`
		Duration  int64  `parquet:"duration_ns"`
		Events    int64  `parquet:"events"`
		Lost      int64  `parquet:"lost"`
		LostMore  bool   `parquet:"lost_more"`
		Waits     int64  `parquet:"waits"`
		WaitedNS  int64  `parquet:"waited_ns"`
	}
	dir := t.TempDir()
	writeTable(t, dir, older{Report: 7, Device: "d", Waits: 3, WaitedNS: 5})
	n := 0
	if err := eachRow(dir, tableDevices, func(d *deviceRow) error {
		n++
		if d.Report != 7 || d.Device != "d" || d.Waits != 3 || d.WaitedNS != 5 || d.Refused != 0 || d.Duplicates != 0 {
			t.Errorf("%+v", d)
		}
		return nil
	}); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
	// An engine does not know the column if no table has it.
	db := filepath.Join(dir, "db")
	part := filepath.Join(db, fleet.PartPrefix+"1")
	if err := os.MkdirAll(part, 0o700); err != nil {
		t.Fatal(err)
	}
	writeTable(t, part, older{Report: 7})
	if text, _ := ran(t, command.OK, "fleet", "devices", "--sql", db); strings.Contains(text, "sum(duplicates)") || !strings.Contains(text, "AS duplicates") {
		t.Error(text)
	}
	part = filepath.Join(db, fleet.PartPrefix+"2")
	if err := os.MkdirAll(part, 0o700); err != nil {
		t.Fatal(err)
	}
	writeTable(t, part, deviceRow{Report: 8})
	if text, _ := ran(t, command.OK, "fleet", "devices", "--sql", db); !strings.Contains(text, "sum(duplicates)") {
		t.Error(text)
	}
	dir = t.TempDir()
	writeTable(t, dir, struct {
		Report     uint64 `parquet:"report"`
		Duplicates int64  `parquet:"duplicates"`
	}{1, 2})
	if err := eachRow(dir, tableDevices, func(*deviceRow) error { return nil }); err == nil {
		t.Error("a table without a device is read")
	}
}

// writeTable writes a table of devices with one row.
func writeTable[T any](t *testing.T, dir string, row T) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	if _, err := w.Write([]T{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, tableDevices+tableSuffix)
	if err := errors.Join(os.WriteFile(name, b.Bytes(), 0o600), writeSum(name, xxhash.Sum64(b.Bytes()))); err != nil {
		t.Fatal(err)
	}
}

// TestNoTables: who asks a report, or a part of a directory, learns what to ask.
func TestNoTables(t *testing.T) {
	dir := t.TempDir()
	db, name := filepath.Join(dir, "db"), tinyReport(t, dir)
	ran(t, command.OK, "export", "-q", "-o", db, name)
	parts, err := partsOf(db)
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	for path, want := range map[string]string{
		name:                       "export -o DIR " + name,
		parts[0]:                   "to " + db + ":",
		dir:                        "export -o " + dir + " REPORT",
		filepath.Join(dir, "none"): "REPORT... makes them",
	} {
		for _, args := range [][]string{{"fleet", "top", path}, {"symbolize", path}} {
			if _, said := ran(t, command.Failure, args...); !strings.Contains(said, want) {
				t.Errorf("%s: %s, want %s", args, said, want)
			}
		}
	}
}
