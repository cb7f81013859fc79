package partstest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// grammar are words of ftrace lines.
var grammar = []string{"<user stack", "<stack trace>", "cookie=", " [LOST ", "file_map: hash=", " => ", "[+0x", " unwound="}

// apart are the directories in which they may stand: the grammar's own, the form of an
// address, which frames have, and programs that generate traces for tests, to which
// the grammar must not be known.
var apart = map[string]bool{
	"tracefs/text": true, "tracefs": true,
	"render/page/browser":          true, // has JavaScript
	"cmd/ustack/internal/tracegen": true, "cmd/ustack/internal/histgen": true,
}

// TestGrammar: one package knows how lines of a trace are read and written.
func TestGrammar(t *testing.T) {
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir, name := filepath.Dir(rel), d.Name()
		switch {
		case d.IsDir() && (name == "testdata" || len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || apart[filepath.ToSlash(dir)]:
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				checkGrammar(t, path, lit)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("only %d files", files)
	}
}

func checkGrammar(t *testing.T, path string, lit *ast.BasicLit) {
	t.Helper()
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range grammar {
		if strings.Contains(text, word) {
			t.Errorf("%s: %s has %q, which is tracefs/text's", path, lit.Value, word)
		}
	}
}
