// Package pages holds what README.md, docs/ and notes/ promise of themselves: pages
// that are read to the end, and links, commands and files that exist.
package pages

import (
	"fmt"
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

const (
	maxLines      = 120  // of a page for users
	maxReadme     = 110  // of README.md
	maxColumns    = 120  // of pages for users, tables too; notes/ may have wider tables
	maxNotesLines = 1500 // of all pages in notes/ together; notes/tables/ has what commands write
)

func TestPages(t *testing.T) {
	require.Empty(t, strings.Join(problems(t, os.DirFS("../..")), "\n"))
}

var (
	fence    = regexp.MustCompile("(?s)```.*?\n```")
	span     = regexp.MustCompile("`[^`]+`")
	indented = regexp.MustCompile(`(?m)^ {4}.*$`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	target   = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	command  = regexp.MustCompile(`\bgo (?:run|test) (?:-race )?(?:-C (\S+) )?(\.\S*)`)
	file     = regexp.MustCompile(`(?:[\w.-]+/)+[\w.-]+\.(?:go|lua|md|png|sh|yaml)\b`)
	mention  = regexp.MustCompile(`\b(?:docs|notes)/[\w-]+\.(?:md|png)\b`)
)

// problems returns what is wrong with the pages of a repository.
func problems(t *testing.T, root fs.FS) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	exists := func(name string) bool {
		_, err := fs.Stat(root, path.Clean(name))
		return err == nil
	}
	makefile := read(t, root, "Makefile")
	notesLines := 0
	for _, page := range pages(t, root) {
		text, dir := read(t, root, page), path.Dir(page)
		record := strings.HasPrefix(page, "notes/")
		if dir == "notes" {
			notesLines += strings.Count(text, "\n")
		}
		for n, line := range strings.Split(text, "\n") {
			if c := utf8.RuneCountInString(line); c > maxColumns && !record {
				add("%s:%d: %d columns, must be at most %d", page, n+1, c, maxColumns)
			}
		}
		most := maxLines
		if page == "README.md" {
			most = maxReadme
		}
		if n := strings.Count(text, "\n"); n > most && (dir == "docs" || page == "README.md") {
			add("%s: %d lines, must be at most %d", page, n, most)
		}
		prose := fence.ReplaceAllString(text, "")
		for _, l := range link.FindAllStringSubmatch(prose, -1) {
			to, anchor, _ := strings.Cut(l[1], "#")
			switch at := path.Join(dir, to); {
			case strings.Contains(to, "://"):
			case to != "" && !exists(at):
				add("%s: link to %s, which does not exist", page, l[1])
			case anchor != "" && to == "":
				at = page
				fallthrough
			case anchor != "":
				if !slices.Contains(anchors(read(t, root, at)), anchor) {
					add("%s: link to %s, but there is no such heading", page, l[1])
				}
			}
		}
		if parent, name, ok := strings.Cut(page, "/"); ok && name != "README.md" &&
			!strings.Contains(read(t, root, parent+"/README.md"), "]("+name+")") {
			add("%s/README.md: no link to %s", parent, name)
		}
		code := fence.FindAllString(text, -1)
		code = append(code, span.FindAllString(prose, -1)...)
		code = append(code, indented.FindAllString(prose, -1)...)
		for _, c := range code {
			for _, m := range target.FindAllStringSubmatch(c, -1) {
				if !strings.Contains(makefile, "\n"+m[1]+":") {
					add("%s: make %s, of which the Makefile knows nothing", page, m[1])
				}
			}
			if record {
				continue // of its day
			}
			for _, m := range command.FindAllStringSubmatch(strings.ReplaceAll(c, "`", " "), -1) {
				if !exists(path.Join(m[1], strings.TrimSuffix(m[2], "..."))) {
					add("%s: %s, which does not exist", page, strings.TrimSpace(m[0]))
				}
			}
			for _, f := range file.FindAllString(c, -1) {
				if !exists(f) {
					add("%s: %s, which does not exist", page, f)
				}
			}
		}
	}
	if notesLines > maxNotesLines {
		add("notes: %d lines, must be at most %d", notesLines, maxNotesLines)
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(name) > 1 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && (path.Ext(name) == ".go" || name == "Makefile") && d.Name() != "pages_test.go":
			for _, m := range mention.FindAllString(read(t, root, name), -1) {
				if !exists(m) {
					add("%s: %s, which does not exist", name, m)
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// pages returns the Markdown files for users and the records.
func pages(t *testing.T, root fs.FS) (all []string) {
	for _, pattern := range []string{"*.md", "docs/*.md", "notes/*.md", "notes/tables/*.md"} {
		found, err := fs.Glob(root, pattern)
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}

// anchors returns what links to the headings of a page end with.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

func read(t *testing.T, root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	require.NoError(t, err)
	return string(text)
}

// Each of these breaks one promise of a repository that keeps them all.
func TestBrokenPagesAreFound(t *testing.T) {
	sound := map[string]string{
		"Makefile":        "\ntest: ## docs/a.md\n",
		"README.md":       "# Name\n[a](docs/a.md#the-task-in-go) `make test`\n\n    go run -C cmd/x .\n    go test ./...\n",
		"docs/README.md":  "[a](a.md)\n",
		"docs/a.md":       "# A\n## The task, in Go\n[below](#a)\n```go\nmake(x)\n```\n`cmd/x/main.go`\n",
		"notes/README.md": "[n](n.md)\n",
		"notes/n.md":      "`old/file.go` " + strings.Repeat("x", maxColumns) + "\n",
		"cmd/x/main.go":   "// notes/n.md\n",
	}
	for _, c := range []struct{ name, text, want string }{
		{"docs/a.md", "", ""},
		{"docs/a.md", strings.Repeat("\n", 113), ""},
		{"docs/a.md", strings.Repeat("\n", 114), "docs/a.md: 121 lines, must be at most 120"},
		{"README.md", strings.Repeat("\n", 106), "README.md: 111 lines, must be at most 110"},
		{"docs/a.md", "| " + strings.Repeat("·", 119), "docs/a.md:8: 121 columns, must be at most 120"},
		{"SECURITY.md", strings.Repeat("x", 121), "SECURITY.md:1: 121 columns, must be at most 120"},
		{"docs/a.md", "[b](b.md)", "docs/a.md: link to b.md, which does not exist"},
		{"docs/a.md", "[b](../notes/n.md#b)", "docs/a.md: link to ../notes/n.md#b, but there is no such heading"},
		{"notes/n.md", "[b](#b)", "notes/n.md: link to #b, but there is no such heading"},
		{"notes/m.md", "\n", "notes/README.md: no link to m.md"},
		{"notes/tables/m.md", "\n", "notes/README.md: no link to tables/m.md"},
		{"notes/n.md", strings.Repeat("\n", 1499), "notes: 1501 lines, must be at most 1500"},
		{"notes/n.md", "`make bench`", "notes/n.md: make bench, of which the Makefile knows nothing"},
		{"docs/a.md", "```\nmake bench\n```", "docs/a.md: make bench, of which the Makefile knows nothing"},
		{"docs/a.md", "`go run ./gone`", "docs/a.md: go run ./gone, which does not exist"},
		{"README.md", "    go run -C gone . x", "README.md: go run -C gone ., which does not exist"},
		{"README.md", "`cmd/gone.go`", "README.md: cmd/gone.go, which does not exist"},
		{"cmd/x/main.go", "// docs/b.md has more.", "cmd/x/main.go: docs/b.md, which does not exist"},
	} {
		root := fstest.MapFS{}
		for name, text := range sound {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		root[c.name] = &fstest.MapFile{Data: []byte(sound[c.name] + c.text)}
		require.Equal(t, c.want, strings.Join(problems(t, root), "\n"), "%s %.40q", c.name, c.text)
	}
}

// The root module requires two modules, and one for tests.
func TestRootRequirements(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	var direct []string
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "\t") && !strings.Contains(line, "// indirect") {
			direct = append(direct, f[0])
		}
	}
	require.Equal(t, []string{
		"github.com/bits-and-blooms/bitset",
		"github.com/cespare/xxhash/v2",
		"github.com/stretchr/testify",
	}, direct)
}
