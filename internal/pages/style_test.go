package pages

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// replaced are words of the glossary in CONTRIBUTING.md that no identifier may be: others
// have taken their place.
var replaced = strings.Fields(`
	acquaintance acquaintances apart bears beside crowded door doors former fresh glances
	grades keeper lately lead leads markTable marked meeting meetings meets met mistaken
	newcomer odds piece pieces pinned rung rungs sight standsOut stir strange stranger
	strangers stretches suspects theirs told toldCoarsely useless wide wronged wrongs yields`)

const (
	maxCommentColumns = 90 // of a comment that has a line for itself; a tab is four columns
)

// unfinished are the folders whose names and comments do not keep the rules yet. Take one
// off the list when it does.
var unfinished = []string{"internal/engine", "redislimit"}

func TestStyle(t *testing.T) {
	require.Empty(t, strings.Join(unstyled(t, os.DirFS("../.."), unfinished), "\n"))
}

// unlinked are the pages for users that do not link the words of docs/README.md yet. Take
// one off the list when it does.
var unlinked = strings.Fields("coredns envoy logs redis redis-strict redis-synced sketchlimitd whatif")

// Each page for users links the one place where the words are defined.
func TestPagesLinkTheWords(t *testing.T) {
	root := os.DirFS("../..")
	pages, err := fs.Glob(root, "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		name := strings.TrimSuffix(path.Base(page), ".md")
		links := strings.Contains(read(t, root, page), "](README.md#words)")
		open := name == "README" || slices.Contains(unlinked, name)
		require.Equal(t, !open, links, "%s: link to README.md#words", page)
	}
}

var (
	tells     = regexp.MustCompile(`^// [A-Za-z]+ tells `)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// unstyled returns what Go files outside the folders do that CONTRIBUTING.md rules out.
func unstyled(t *testing.T, root fs.FS, except []string) (found []string) {
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(except, name) || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text := read(t, root, name)
		if generated.MatchString(text) {
			return nil
		}
		found = append(found, unstyledFile(t, name, text)...)
		return nil
	})
	require.NoError(t, err)
	return found
}

func unstyledFile(t *testing.T, name, text string) (found []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	add := func(at token.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s:%d: %s", name, fset.Position(at).Line, fmt.Sprintf(format, args...)))
	}
	lines := strings.Split(text, "\n")
	for _, group := range file.Comments {
		for _, c := range group.List {
			line := lines[fset.Position(c.Pos()).Line-1]
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue // behind code
			}
			if tells.MatchString(c.Text) {
				add(c.Pos(), "%.40q, must say returns or reports whether", c.Text)
			}
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > maxCommentColumns && !verbatim(c.Text) {
				add(c.Pos(), "comment of %d columns, must be at most %d", columns, maxCommentColumns)
			}
		}
	}
	if strings.HasSuffix(name, "_test.go") {
		return found
	}
	for _, ident := range declared(file) {
		if slices.Contains(replaced, ident.Name) {
			add(ident.Pos(), "%s, must be called by the term of the glossary", ident.Name)
		}
	}
	return found
}

// verbatim reports whether a comment is code, output, or a table, which is not wrapped.
func verbatim(text string) bool {
	return !strings.HasPrefix(text, "// ") || strings.HasPrefix(text, "//  ") || strings.Contains(text, "://") ||
		strings.HasPrefix(text, "// Ratelimit-Policy: ")
}

// declared returns the identifiers that a file declares.
func declared(file *ast.File) (list []*ast.Ident) {
	defined := func(tok token.Token, exprs ...ast.Expr) {
		for _, e := range exprs {
			if ident, ok := e.(*ast.Ident); ok && tok == token.DEFINE {
				list = append(list, ident)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			list = append(list, n.Name)
		case *ast.TypeSpec:
			list = append(list, n.Name)
		case *ast.ValueSpec:
			list = append(list, n.Names...)
		case *ast.Field:
			list = append(list, n.Names...)
		case *ast.AssignStmt:
			defined(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			defined(n.Tok, n.Key, n.Value)
		}
		return true
	})
	return list
}

// Each of these breaks one rule, and a sound file none.
func TestUnstyledFilesAreFound(t *testing.T) {
	long := "// " + strings.Repeat("x ", 43) + "x\n" // 90 columns
	for _, c := range []struct{ name, text, want string }{
		{"a.go", "// F returns 1.\nfunc F() int { return 1 }\n" + long, ""},
		{"a.go", "// F tells whether.\nfunc F() {}\n", `a.go:2: "// F tells whether.", must say returns or reports whether`},
		{"a.go", "// F reports what G\n// and tells it.\nfunc F() {}\n", `a.go:3: "// and tells it.", must say returns or reports whether`},
		{"a.go", strings.Replace(long, "\n", "x\n", 1), "a.go:2: comment of 91 columns, must be at most 90"},
		{"a.go", "func f() {\n\t" + long + "}\n", "a.go:3: comment of 94 columns, must be at most 90"},
		{"a.go", "//\t" + strings.Repeat("x", 99) + "\n", ""},
		{"a.go", "var x = 1 // " + strings.Repeat("x ", 99) + "\n", ""},
		{"a.go", "func told() {}\n", "a.go:2: told, must be called by the term of the glossary"},
		{"a.go", "type t struct{ a, fresh int }\n", "a.go:2: fresh, must be called by the term of the glossary"},
		{"a.go", "func f(met int) {}\n", "a.go:2: met, must be called by the term of the glossary"},
		{"a.go", "func f() { lead := 1; _ = lead }\n", "a.go:2: lead, must be called by the term of the glossary"},
		{"a.go", "func f() { for _, rung := range g { _ = rung } }\n", "a.go:2: rung, must be called by the term of the glossary"},
		{"a_test.go", "func told() {}\n", ""},
		{"open/a.go", "func told() {}\n", ""},
		{"gen.go", "// Code generated by x. DO NOT EDIT.\nfunc told() {}\n", ""},
	} {
		root := fstest.MapFS{c.name: &fstest.MapFile{Data: []byte("package p\n" + c.text)}}
		require.Equal(t, c.want, strings.Join(unstyled(t, root, []string{"open"}), "\n"), "%.60q", c.text)
	}
}
