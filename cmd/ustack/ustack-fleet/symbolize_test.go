package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/saved"
	"ustack/cmd/ustack/internal/symbols"
	"ustack/cmd/ustack/internal/tables"
	"ustack/filemap/resolve"
	"ustack/tracefs/capturetest"
)

// symbolCaptures are captures with stacks of many programs, and of two dialects.
var symbolCaptures = []string{"hash/edge", "hash/kstack", "hash/first", "hash/tgid_raw", "inode/instance"}

// tinyID is the build ID of tiny, a program with debug information.
const (
	tinyID = "69b588d4e9a1752815148963d25e29d8a867dba5"
	tiny   = "../../../filemap/symbol/lines/testdata/dwarf5.elf"
)

// tinyReport writes a trace with each place in the code of tiny, as one where a thread was and
// as a return address.
func tinyReport(t *testing.T, dir string) string {
	t.Helper()
	const begin, end = 0x1000, 0x1070
	var b strings.Builder
	for at := begin; at < end; at++ {
		fmt.Fprintf(&b, "            prog-11      [000] .....     1.%06d: open: a=1\n            prog-11      [000] .....     1.%06d: <user stack trace>\n", at, at)
		for _, offset := range []int{at, begin + (at-begin+7)%(end-begin)} {
			fmt.Fprintf(&b, " =>  <%016x> : path=/bin/tiny [build_id=%s]\n", offset, tinyID)
		}
	}
	name := filepath.Join(dir, "tiny.txt")
	writeFile(t, name, []byte(b.String()))
	return name
}

// symbolReports returns reports whose frames can be named, and the directory with their files.
func symbolReports(t *testing.T) (root string, files []string) {
	t.Helper()
	root = capturetest.Unpack(t, testdata+"/truth/rootfs.tar.zst")
	for _, name := range symbolCaptures {
		files = append(files, filepath.Join(testdata, "captures", name, "trace.txt.zst"))
	}
	install(t, root, tiny)
	return root, append(files, tinyReport(t, t.TempDir()))
}

// framePlace is a place in a file, as a frame has it.
type framePlace struct {
	id     string
	offset int64
	ran    bool
}

// frameName is what is known of it: the columns that the tables of ustack query have, too.
type frameName struct{ function, inlined, source, line, reason string }

// truth is a Sink that has the names that ustack itself gives to the frames of a report.
type truth struct {
	t       *testing.T
	columns []tables.Column
	names   map[framePlace]frameName
}

func (s *truth) Row(table string, values []any) error {
	if table != "frames" {
		return nil
	}
	row := make(map[string]string)
	for i, c := range s.columns {
		if values[i] != nil {
			row[c.Name] = fmt.Sprint(values[i])
		}
	}
	if row["build_id"] == "" || row["offset"] == "" {
		return nil
	}
	offset, err := strconv.ParseInt(row["offset"], 0, 64)
	if err != nil {
		return err
	}
	at := framePlace{row["build_id"], offset, row["depth"] == "0" || row["inferred"] == "1" || row["how"] == "signal"}
	name := frameName{row["function"], row["inlined"], row["source"], row["source_line"], row["no_function"]}
	// Of the paths of one file, those count where it is found.
	switch other := s.names[at]; {
	case other == frameName{} || isMissing(other.reason):
		s.names[at] = name
	case other != name && !isMissing(name.reason):
		s.t.Errorf("%v has two names: %v and %v", at, other, name)
	}
	return nil
}

// trueNames returns the names that ustack itself gives.
func trueNames(t *testing.T, root string, files []string) map[framePlace]frameName {
	t.Helper()
	s := truth{t, columnsOf("frames"), make(map[framePlace]frameName)}
	for i := range files {
		source := tables.Source{
			From:    &saved.Options{Files: files[i : i+1], Dialect: resolve.Auto, Quiet: true, Sysroot: root, Symbols: true},
			Symbols: &symbols.Options{On: true, NoInfer: true},
		}
		if _, err := source.Load(nil, nil, &s); err != nil {
			t.Fatal(err)
		}
	}
	return s.names
}

// namesIn returns the names of a directory, and how many of them are functions.
func namesIn(t *testing.T, db string) (names map[framePlace]frameName, functions int) {
	t.Helper()
	list, err := functionTables(db)
	if err != nil || len(list) == 0 {
		t.Fatalf("no table of functions: %v", err)
	}
	names = make(map[framePlace]frameName)
	if err := eachRow(list[len(list)-1].dir, tableFunctions, func(f *functionRow) error {
		line := ""
		if f.Line != nil {
			line = fmt.Sprint(*f.Line)
		}
		at := framePlace{f.BuildID, f.Offset, f.Ran}
		if _, twice := names[at]; twice {
			t.Errorf("%v is there twice", at)
		}
		names[at] = frameName{text0(f.Function), text0(f.Inlined), text0(f.Source), line, text0(f.Reason)}
		if f.Function != nil {
			functions++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names, functions
}

// contents returns the files of all parts, with their bytes.
func contents(t *testing.T, db string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(escapeGlob(db), "part-*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// TestSymbolize: each place of the frames of all devices has the name that ustack itself gives,
// and the reason where it has none. Files that come later give names to old reports, files
// that go take none, and the other tables stay as they are.
func TestSymbolize(t *testing.T) {
	root, files := symbolReports(t)
	db := filepath.Join(t.TempDir(), "it's [a]*?")
	ran(t, command.OK, append([]string{"export", "-q", "-o", db}, files...)...)
	before := contents(t, db)

	places := make(map[framePlace]bool)
	for _, f := range read[frameRow](t, db, tableFrames) {
		if f.BuildID != nil && f.Offset != nil {
			places[framePlace{*f.BuildID, *f.Offset, f.Ran}] = true
		}
	}
	// The machine may have debug information of some files.
	empty := t.TempDir()
	_, said := ran(t, command.OK, "symbolize", "-q", "--sysroot", empty, db)
	missing, few := namesIn(t, db)
	if want := fmt.Sprintf("looked for %d names: %d found, %d of them new", len(places), few, few); !strings.Contains(said, want) {
		t.Errorf("%s, want %s", said, want)
	}
	compareNames(t, missing, trueNames(t, empty, files), places)
	complete := 0
	for _, name := range missing {
		if name.line != "" {
			complete++
		}
	}

	_, said = ran(t, command.OK, "symbolize", "-q", "--sysroot", root, db)
	names, functions := namesIn(t, db)
	if want := fmt.Sprintf("looked for %d names: %d found, %d of them new", len(places)-complete, functions-complete, functions-few); !strings.Contains(said, want) {
		t.Errorf("%s, want %s", said, want)
	}
	compareNames(t, names, trueNames(t, root, files), places)
	haveNames(t, names)

	for _, dir := range []string{root, empty} {
		if _, said := ran(t, command.OK, "symbolize", "-q", "--sysroot", dir, db); !strings.Contains(said, " 0 of them new") {
			t.Error(said)
		}
		if again, _ := namesIn(t, db); !maps.Equal(again, names) {
			t.Errorf("names have changed when %s was asked", dir)
		}
	}
	if list, _ := functionTables(db); len(list) != 2 || list[1].number != 2 {
		t.Errorf("tables of functions: %v", list)
	}
	if !maps.Equal(before, contents(t, db)) {
		t.Error("other tables have changed")
	}
	answerNames(t, db, names)
}

// compareNames compares names of a directory with those that ustack itself gives.
func compareNames(t *testing.T, names, truth map[framePlace]frameName, places map[framePlace]bool) {
	t.Helper()
	for at, name := range names {
		want, ok := truth[at]
		if !ok || name != want {
			t.Errorf("%v: %v, want %v", at, name, want)
		}
		if !places[at] {
			t.Errorf("%v has a name, and no frame", at)
		}
	}
	if len(names) != len(places) {
		t.Errorf("%d places have a row, want %d", len(names), len(places))
	}
}

// haveNames checks that there is something to compare.
func haveNames(t *testing.T, names map[framePlace]frameName) {
	t.Helper()
	var functions, lines, inlined, different int
	for at, name := range names {
		other := at
		other.ran = !at.ran
		otherName, ok := names[other]
		for is, n := range map[*int]bool{
			&functions: name.function != "", &lines: name.line != "", &inlined: name.inlined != "",
			&different: ok && name.function != otherName.function,
		} {
			if n {
				*is++
			}
		}
	}
	if functions < 100 || lines < 100 || inlined < 10 || different < 10 {
		t.Errorf("%d functions, %d lines, %d inlined, %d that differ by whether a thread was there: too few", functions, lines, inlined, different)
	}
}

// answerNames checks the functions in the answers about locks.
func answerNames(t *testing.T, db string, names map[framePlace]frameName) {
	t.Helper()
	known := make(map[string]bool) // build ID, offset and function
	for at, name := range names {
		known[fmt.Sprint(at.id, " ", at.offset, " ", name.function)] = true
	}
	text, _ := ran(t, command.OK, "fleet", "top", "--format=csv", "--top=1000", db)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, row := range rows[1:] {
		n := len(row)
		id, offset, function := row[n-3], row[n-2], row[n-1]
		if id != "" && !known[id+" "+offset+" "+function] || id == "" && function != "" {
			t.Errorf("%q", row)
		}
		if function != "" {
			found++
		}
	}
	if found < 5 {
		t.Errorf("%d locks have a function:\n%s", found, text)
	}
	if text, _ := ran(t, command.OK, "fleet", "top", "--sql", db); !strings.Contains(text, "it''s [[]a][*][?]/functions-00000002/functions.parquet'") {
		t.Errorf("the statement does not have the functions of this directory: %s", text)
	}
}

// TestSymbolizeOtherFile: a file with another build ID gives no name, and what was found before
// stays.
func TestSymbolizeOtherFile(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	db := filepath.Join(dir, "db")
	ran(t, command.OK, "export", "-q", "-o", db, tinyReport(t, dir))
	for _, c := range []struct {
		file      string
		functions bool
		reason    string
	}{
		{strings.Replace(tiny, "dwarf5", "dwarf4", 1), false, "id-mismatch"},
		{tiny, true, ""},
		{strings.Replace(tiny, "dwarf5", "dwarf4", 1), true, ""},
	} {
		install(t, root, c.file)
		ran(t, command.OK, "symbolize", "-q", "--sysroot", root, db)
		names, functions := namesIn(t, db)
		if functions > 0 != c.functions {
			t.Errorf("%s: %d functions", c.file, functions)
		}
		work := names[framePlace{tinyID, 0x1000, true}]
		if work.reason != c.reason || c.functions && work.function != "work" {
			t.Errorf("%s: %v", c.file, work)
		}
	}
}

// install has a file at the path of tiny in a directory.
func install(t *testing.T, root, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "bin", "tiny"), text)
}

// TestSymbolizeOtherPaths: a report that has a file at many paths at which it is not takes no names
// from those that came before.
func TestSymbolizeOtherPaths(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	db := filepath.Join(dir, "db")
	ran(t, command.OK, "export", "-q", "-o", db, tinyReport(t, dir))
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "            prog-11      [000] .....     1.%06d: open: a=1\n            prog-11      [000] .....     1.%06d: <user stack trace>\n =>  <%016x> : path=/%d [build_id=%s]\n", i, i, 0x10000+i, i, tinyID)
	}
	hostile := filepath.Join(dir, "hostile.txt")
	writeFile(t, hostile, []byte(b.String()))
	ran(t, command.OK, "export", "-q", "-o", db, hostile)
	install(t, root, tiny)
	ran(t, command.OK, "symbolize", "-q", "--sysroot", root, db)
	names, _ := namesIn(t, db)
	if work := names[framePlace{tinyID, 0x1003, true}]; work.function != "work" {
		t.Errorf("%v", work)
	}
}

// TestSymbolizeSharedID: where different files have one build ID, a place gets no name that is
// not that of all of them, and an ID that a user has set gives none.
func TestSymbolizeSharedID(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	text, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	const set = "c0ffee0000000000000000000000000000000000"
	id, err := hex.DecodeString(tinyID + set)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"one": text, "two": movedOther(t, text), "set": bytes.Replace(text, id[:20], id[20:], 1)} {
		writeFile(t, filepath.Join(root, "bin", name), text)
	}
	var b strings.Builder
	for _, frame := range []string{"one 1033 " + tinyID, "two 1033 " + tinyID, "two 1050 " + tinyID, "one 1003 " + tinyID, "set 1003 " + set} {
		var name, id string
		var at int
		if _, err := fmt.Sscanf(frame, "%s %x %s", &name, &at, &id); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "            prog-11      [000] .....     1.%06d: open: a=1\n            prog-11      [000] .....     1.%06d: <user stack trace>\n =>  <%016x> : path=/bin/%s [build_id=%s]\n", at, at, at, name, id)
	}
	report := filepath.Join(dir, "report.txt")
	writeFile(t, report, []byte(b.String()))
	db := filepath.Join(dir, "db")
	ran(t, command.OK, "export", "-q", "-o", db, report)
	ran(t, command.OK, "symbolize", "-q", "--sysroot", root, db)
	names, _ := namesIn(t, db)
	for at, want := range map[framePlace]frameName{
		{tinyID, 0x1033, true}: {reason: "unverified"}, {tinyID, 0x1050, true}: {function: "_start"},
		{tinyID, 0x1003, true}: {function: "work"}, {set, 0x1003, true}: {reason: "unverified"},
	} {
		if got := names[at]; got.function != want.function || got.reason != want.reason {
			t.Errorf("%v: %v, want %v", at, got, want)
		}
	}
}

// movedOther returns tiny with 8 bytes of the function other in the function work.
func movedOther(t *testing.T, text []byte) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Clone(text)
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	table := f.SectionByType(elf.SHT_SYMTAB)
	for i, s := range symbols {
		entry := text[table.Offset+uint64(i+1)*elf.Sym64Size:]
		switch s.Name {
		case "work":
			binary.LittleEndian.PutUint64(entry[16:], s.Size+8)
		case "other":
			binary.LittleEndian.PutUint64(entry[8:], s.Value+8)
			binary.LittleEndian.PutUint64(entry[16:], s.Size-8)
		}
	}
	return text
}

// TestSymbolizeRefused: what cannot be named is an error that says what to do.
func TestSymbolizeRefused(t *testing.T) {
	dir := t.TempDir()
	if _, said := ran(t, command.Failure, "symbolize", dir); !strings.Contains(said, "ustack export -o") {
		t.Error(said)
	}
	db := filepath.Join(dir, "db")
	ran(t, command.OK, "export", "-q", "-o", db, tinyReport(t, dir))
	s, err := openStore(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, said := ran(t, command.Failure, "symbolize", db); !strings.Contains(said, "another ustack export or symbolize") {
		t.Error(said)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ran(t, command.OK, "symbolize", "-q", "--sysroot", dir, db)
	list, err := functionTables(db)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	name := filepath.Join(list[0].dir, tableFunctions+tableSuffix)
	if err := os.Truncate(name, 100); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"symbolize", db}, {"fleet", "top", db}} {
		if _, said := ran(t, command.Failure, args...); !strings.Contains(said, name) {
			t.Errorf("%s: %s", args, said)
		}
	}
	for _, args := range [][]string{{"symbolize"}, {"symbolize", "--credentials=x", db}, {"symbolize", "--retry=-1s", db}, {"symbolize", db, db}} {
		ran(t, command.Usage, args...)
	}
}
