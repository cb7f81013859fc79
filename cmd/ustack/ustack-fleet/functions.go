package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/render"
)

// symbolizeCommand is "ustack symbolize".
func symbolizeCommand(args []string, std command.Streams) error {
	f, err := fleet.ParseSymbolize(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	names, err := f.Symbols.Open(f.Sysroot, render.Progress(std.Messages(), f.Quiet))
	if err != nil {
		return err
	}
	defer names.Close()
	s := symbolizer{Symbolize: f, namer: &namer{names}, messages: std.Messages()}
	if f.Server != nil {
		err = s.server(ctx, nil)
	} else {
		err = s.directory(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w; the same command goes on with what has no name yet", err)
	}
	fmt.Fprintf(s.messages, "ustack: looked for %d names: %d found, %d of them new\n", s.asked, s.named, s.fresh)
	return nil
}

// symbolizer fills the table functions.
type symbolizer struct {
	*fleet.Symbolize
	namer               *namer
	messages            io.Writer
	asked, named, fresh int
}

// count counts a row that was named anew.
func (s *symbolizer) count(row, old *functionRow) {
	s.asked++
	if row.Function == nil {
		return
	}
	s.named++
	if old == nil || old.Function == nil {
		s.fresh++
	}
}

// functionsPrefix begins the name of a directory with the table functions, which has a number
// after it: the highest one counts. The one before stays for questions that have begun.
const functionsPrefix = "functions-"

// maxPlaces bounds memory: of so many, an engine has to take care.
const maxPlaces = 4 << 20

// functionTable is a directory with the table functions, and its number.
type functionTable struct {
	dir    string
	number uint64
}

// functionTables returns these directories, the newest last.
func functionTables(dir string) (list []functionTable, err error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), functionsPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(name), functionsPrefix), 10, 63)
		if err == nil {
			list = append(list, functionTable{name, n})
		}
	}
	slices.SortFunc(list, func(a, b functionTable) int { return cmp.Compare(a.number, b.number) })
	return list, nil
}

// directory names what is in a directory.
func (s *symbolizer) directory(ctx context.Context) error {
	store := &store{dir: s.Dir}
	if parts, err := partsOf(s.Dir); err != nil || len(parts) == 0 {
		return errors.Join(err, noTables(s.Dir))
	}
	if err := store.take(); err != nil {
		return err
	}
	defer store.Close()
	tables, err := functionTables(s.Dir)
	if err != nil {
		return err
	}
	known, err := readFunctions(tables)
	if err != nil {
		return err
	}
	objects, err := unnamed(s.Dir, known)
	if err != nil {
		return err
	}
	better := false
	for _, o := range objects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		better = s.object(o, known) || better
	}
	if !better {
		return nil
	}
	return store.writeFunctions(known, tables)
}

// object names the places of a file, and returns whether a row is better than before.
func (s *symbolizer) object(o *object, known functionSet) (better bool) {
	at := known[o.id]
	if at == nil {
		at = make(map[place]*functionRow)
		known[o.id] = at
	}
	for _, row := range s.namer.name(o) {
		old := at[place{row.Offset, row.Ran}]
		s.count(&row, old)
		if row.betterThan(old) {
			better, at[place{row.Offset, row.Ran}] = true, &row
		}
	}
	return better
}

// functionSet has rows by build ID and place.
type functionSet map[string]map[place]*functionRow

// readFunctions returns the rows of the newest table.
func readFunctions(tables []functionTable) (functionSet, error) {
	known := make(functionSet)
	if len(tables) == 0 {
		return known, nil
	}
	n := 0
	return known, eachRow(tables[len(tables)-1].dir, tableFunctions, func(f *functionRow) error {
		if n++; n > maxPlaces {
			return errTooMany()
		}
		row := *f
		if known[row.BuildID] == nil {
			known[row.BuildID] = make(map[place]*functionRow)
		}
		known[row.BuildID][place{row.Offset, row.Ran}] = &row
		return nil
	})
}

func errTooMany() error {
	return fmt.Errorf("more than %d places to name: push the reports to a server, and name them there", maxPlaces)
}

// gatherer gathers the places without a complete name, by file.
type gatherer struct {
	known   functionSet
	objects map[string]*object
	seen    map[string]map[place]bool
	n       int
}

// unnamed returns the files with places that have no complete name, in the order of their
// build IDs.
func unnamed(dir string, known functionSet) (list []*object, err error) {
	parts, err := partsOf(dir)
	if err != nil {
		return nil, err
	}
	g := gatherer{known: known, objects: make(map[string]*object), seen: make(map[string]map[place]bool)}
	for _, part := range parts {
		if err := eachRow(part, tableFrames, g.frame); err != nil {
			return nil, err
		}
	}
	for _, o := range g.objects {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *object) int { return strings.Compare(a.id, b.id) })
	return list, nil
}

// frame takes a frame. One without a build ID is of an unknown file: it gets no name.
func (g *gatherer) frame(f *frameRow) error {
	if f.BuildID == nil || f.Offset == nil || f.Path == nil {
		return nil
	}
	at := place{*f.Offset, f.Ran}
	if row := g.known[*f.BuildID][at]; row != nil && row.complete() {
		return nil
	}
	o := g.objects[*f.BuildID]
	if o == nil {
		o = &object{id: *f.BuildID}
		g.objects[o.id], g.seen[o.id] = o, make(map[place]bool)
	}
	o.addPath(*f.Path)
	if g.seen[o.id][at] {
		return nil
	}
	if g.n++; g.n > maxPlaces {
		return errTooMany()
	}
	g.seen[o.id][at] = true
	o.places = append(o.places, at)
	return nil
}

// writeFunctions has the table appear with the next number, and removes those that are older
// than the newest of the tables that there are.
func (s *store) writeFunctions(set functionSet, tables []functionTable) error {
	dir, err := os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return fmt.Errorf("creating a directory for the functions: %w", err)
	}
	p := &part{dir: dir}
	w, err := newWriter[functionRow](p, tableFunctions, nil)
	if err != nil {
		return errors.Join(err, p.abandon())
	}
	if err := writeSorted(w, set); err != nil {
		return errors.Join(fmt.Errorf("writing the functions: %w", err), p.abandon())
	}
	number := uint64(1)
	if n := len(tables); n > 0 {
		number = tables[n-1].number + 1
		tables = tables[:n-1]
	}
	if err := p.publish(fmt.Sprintf("%s%08d", functionsPrefix, number), w.Close()); err != nil {
		return err
	}
	for _, old := range tables {
		err = errors.Join(err, os.RemoveAll(old.dir))
	}
	if err != nil {
		return fmt.Errorf("removing old tables of functions: %w", err)
	}
	return nil
}

// writeSorted writes rows in the order of their keys.
func writeSorted(w *parquet.GenericWriter[functionRow], set functionSet) error {
	var ids []string
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		var rows []functionRow
		for _, row := range set[id] {
			rows = append(rows, *row)
		}
		slices.SortFunc(rows, func(a, b functionRow) int {
			return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(rank(a.Ran), rank(b.Ran)))
		})
		if _, err := w.Write(rows); err != nil {
			return err
		}
	}
	return nil
}

// rank orders truth: false is first.
func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}
