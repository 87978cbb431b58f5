package pages

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sketchlimit/sketchlimit"

// testOnly are the packages that only tests, benches and the gate import.
var testOnly = strings.Fields("bench examples internal/kinds internal/pages internal/pageview internal/testkit internal/tests")

// Each package imports packages of lower lines of docs/architecture.md only.
func TestLayers(t *testing.T) {
	root := os.DirFS("../..")
	require.Empty(t, strings.Join(upward(t, root, layers(t, root)), "\n"))
}

// layers returns the lines of the page below "Who imports whom", the top first.
func layers(t *testing.T, root fs.FS) (lines [][]string) {
	_, text, _ := strings.Cut(read(t, root, "docs/architecture.md"), "## Who imports whom\n")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, found := strings.Cut(text, "\n```")
	require.True(t, found)
	for line := range strings.Lines(text) {
		names, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		lines = append(lines, strings.Split(names, ", "))
	}
	return lines
}

// upward returns the packages that no line names, the names that are no package, and the
// imports that do not point down.
func upward(t *testing.T, root fs.FS, lines [][]string) (found []string) {
	depth, seen := map[string]int{}, map[string]bool{}
	for i, line := range lines {
		for _, name := range line {
			depth[name] = i
		}
	}
	// named returns the name of a package on the page, or that of a folder above.
	named := func(pkg string) (string, bool) {
		if pkg == "." {
			pkg = "sketchlimit"
		}
		for ; pkg != "."; pkg = path.Dir(pkg) {
			if _, ok := depth[pkg]; ok {
				return pkg, true
			}
		}
		return "", false
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch _, statErr := fs.Stat(root, path.Join(name, "go.mod")); {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && (statErr == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || slices.Contains(testOnly, name)):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		from, ok := named(path.Dir(name))
		if !ok {
			found = append(found, fmt.Sprintf("%s: no line names its package", name))
			return nil
		}
		seen[from] = true
		file, err := parser.ParseFile(token.NewFileSet(), name, read(t, root, name), parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			rest, ours := strings.CutPrefix(imported+"/", module+"/")
			if !ours || slices.Contains(testOnly, path.Clean(rest)) {
				continue
			}
			if to, ok := named(path.Clean(rest)); !ok || to != from && depth[to] <= depth[from] {
				found = append(found, fmt.Sprintf("%s: imports %s, which is not on a lower line", name, imported))
			}
		}
		return nil
	})
	require.NoError(t, err)
	for _, line := range lines {
		for _, name := range line {
			if !seen[name] {
				found = append(found, fmt.Sprintf("%s: no package", name))
			}
		}
	}
	return found
}

// Each of these breaks the order, and sound packages do not.
func TestUpwardImportsAreFound(t *testing.T) {
	lines := [][]string{{"tune"}, {"sketchlimit"}, {"internal/engine"}, {"bloom", "cms"}}
	sound := map[string]string{
		"a.go":                 `import _ "` + module + `/internal/engine"`,
		"tune/a.go":            `import (_ "fmt"; _ "` + module + `"; _ "` + module + `/tune/internal/b")`,
		"tune/internal/b/b.go": ``,
		"internal/engine/a.go": `import _ "` + module + `/bloom"`,
		"bloom/a.go":           ``,
		"cms/a.go":             ``,
		"cms/a_test.go":        `import _ "` + module + `"`,
		"bench/a.go":           `import _ "` + module + `/gone"`,
	}
	for _, c := range []struct{ name, text, want string }{
		{"cms/b.go", `import _ "fmt"`, ""},
		{"cms/b.go", `import _ "` + module + `/bloom"`, "cms/b.go: imports " + module + "/bloom, which is not on a lower line"},
		{"cms/b.go", `import _ "` + module + `"`, "cms/b.go: imports " + module + ", which is not on a lower line"},
		{"b.go", `import _ "` + module + `/tune/internal/b"`, "b.go: imports " + module + "/tune/internal/b, which is not on a lower line"},
		{"b.go", `import _ "` + module + `/gone"`, "b.go: imports " + module + "/gone, which is not on a lower line"},
		{"new/b.go", ``, "new/b.go: no line names its package"},
		{"nested/b.go", `import _ "` + module + `/gone"`, ""},
	} {
		root := fstest.MapFS{"nested/go.mod": {}}
		for name, text := range sound {
			root[name] = &fstest.MapFile{Data: []byte("package p\n" + text)}
		}
		root[c.name] = &fstest.MapFile{Data: []byte("package p\n" + c.text)}
		require.Equal(t, c.want, strings.Join(upward(t, root, lines), "\n"), "%s %s", c.name, c.text)
	}
	require.Equal(t, []string{"gone: no package"}, upward(t, fstest.MapFS{}, [][]string{{"gone"}}))
}
