// Package partstest checks how the types of a package depend on each other, for tests of
// packages whose main type has parts.
package partstest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is what the files of a package declare.
type source struct {
	uses    map[*ast.Ident]types.Object
	types   map[string]*ast.TypeSpec
	docs    map[string]string
	methods map[string][]*ast.FuncDecl
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

// parse reads the files of a directory that are no tests.
func parse(t testing.TB, dir string) *source {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{uses: make(map[*ast.Ident]types.Object), types: make(map[string]*ast.TypeSpec), docs: make(map[string]string),
		methods: make(map[string][]*ast.FuncDecl)}
	set := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			s.add(file)
		}
	}
	// The package's own declarations are known without its imports.
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check(dir, set, files, &types.Info{Uses: s.uses})
	return s
}

func (s *source) add(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					s.types[spec.Name.Name], s.docs[spec.Name.Name] = spec, d.Doc.Text()
				}
			}
		case *ast.FuncDecl:
			if name := receiver(d); name != "" {
				s.methods[name] = append(s.methods[name], d)
			}
		}
	}
}

// receiver returns the type whose method a function is, "" if it is none.
func receiver(d *ast.FuncDecl) (name string) {
	if d.Recv == nil {
		return ""
	}
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// Order fails a test of a package if one of its types in order knows a later one, or has
// no invariants in its doc comment and is not in plain.
func Order(t testing.TB, order []string, plain ...string) {
	t.Helper()
	s := parse(t, ".")
	later := make(map[types.Object]string)
	for _, name := range slices.Backward(order) {
		if s.types[name] == nil {
			t.Fatalf("there is no type %s", name)
		}
		t.Logf("%s: %d methods", name, len(s.methods[name]))
		if !slices.Contains(plain, name) && !strings.Contains(s.docs[name], "Invariants") {
			t.Errorf("the doc comment of %s has no invariants", name)
		}
		for _, known := range s.known(name, later) {
			t.Errorf("%s knows %s, which leads it", name, known)
		}
		for id, o := range s.uses {
			if _, ok := o.(*types.TypeName); ok && id.Name == name {
				later[o] = name
			}
		}
	}
}

// known returns the types among some that a type and its methods mention.
func (s *source) known(name string, of map[types.Object]string) (list []string) {
	nodes := []ast.Node{s.types[name]}
	for _, m := range s.methods[name] {
		nodes = append(nodes, m.Type, m.Body)
	}
	for _, n := range nodes {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && of[s.uses[id]] != "" {
				list = append(list, id.Name)
			}
			return true
		})
	}
	return list
}

// Methods returns how many methods each type has that the files of a directory
// declare.
func Methods(t testing.TB, dir string) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for name, list := range parse(t, dir).methods {
		counts[name] = len(list)
	}
	return counts
}
