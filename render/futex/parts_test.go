package futex

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"
)

// order is the parts of an Analysis: each knows only the ones before it.
var order = []string{"stacks", "losses", "tasks", "locks", "sites", "holders", "callLog", "calls", "reporter", "Analysis"}

// maxMethods is how many methods a type has at most.
const maxMethods = 40

// source is what the files of the package declare.
type source struct {
	uses    map[*ast.Ident]types.Object
	types   map[string]*ast.TypeSpec
	docs    map[string]string
	methods map[string][]*ast.FuncDecl
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func parseSource(t *testing.T) *source {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{uses: make(map[*ast.Ident]types.Object), types: make(map[string]*ast.TypeSpec), docs: make(map[string]string),
		methods: make(map[string][]*ast.FuncDecl)}
	set := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			s.add(file)
		}
	}
	// What the package declares itself is known without its imports.
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check("futex", set, files, &types.Info{Uses: s.uses})
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

// receiver is the type whose method a function is, "" if it is none.
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

// TestParts: each part of an Analysis knows only the ones before it and says what always
// holds of it, and no type has too many methods.
func TestParts(t *testing.T) {
	s := parseSource(t)
	for name, list := range s.methods {
		if len(list) > maxMethods {
			t.Errorf("%s has %d methods, more than %d", name, len(list), maxMethods)
		}
	}
	above := make(map[types.Object]bool)
	for i := len(order) - 1; i >= 0; i-- {
		name := order[i]
		if s.types[name] == nil {
			t.Fatalf("there is no type %s", name)
		}
		t.Logf("%s: %d methods", name, len(s.methods[name]))
		if name != "reporter" && name != "Analysis" && !strings.Contains(s.docs[name], "Invariants") {
			t.Errorf("the doc comment of %s has no invariants", name)
		}
		nodes := []ast.Node{s.types[name]}
		for _, m := range s.methods[name] {
			nodes = append(nodes, m.Type, m.Body)
		}
		for _, n := range nodes {
			ast.Inspect(n, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && above[s.uses[id]] {
					t.Errorf("%s knows %s, which leads it", name, id.Name)
				}
				return true
			})
		}
		for id, o := range s.uses {
			if _, ok := o.(*types.TypeName); ok && id.Name == name {
				above[o] = true
			}
		}
	}
}
