package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// read returns the texts of files.
func read(paths []string) (texts []File, err error) {
	files, err := list(paths)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		texts = append(texts, File{file, data})
	}
	return texts, nil
}

// add adds the domains of texts; the rules have no limiters yet.
func (s *set) add(texts []File) error {
	for _, t := range texts {
		if err := s.addFile(t.Name, t.Data); err != nil {
			return err
		}
	}
	return nil
}

// list returns the files that the paths stand for.
func list(paths []string) ([]string, error) {
	w := walk{seen: map[string]bool{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
		if !info.IsDir() {
			w.files = append(w.files, path)
		} else if err := w.folder(path); err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	}
	if len(w.files) == 0 {
		return nil, fmt.Errorf("rules: no files in %q, must be at least 1 that ends in .yaml or .yml", paths)
	}
	return w.files, nil
}

// walk collects files of folders.
type walk struct {
	files []string
	seen  map[string]bool // folders: links may lead back
}

// folder adds the files of a folder, and of those below it, in the order of names.
// Kubernetes mounts them as links into hidden folders, so links are followed, and what
// is hidden is left out: it would be read twice.
func (w *walk) folder(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || w.seen[real] {
		return err
	}
	w.seen[real] = true
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		ending := filepath.Ext(below)
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(below)
		switch {
		case err == nil && info.IsDir():
			err = w.folder(below)
		case ending != ".yaml" && ending != ".yml":
			err = nil
		case err == nil:
			w.files = append(w.files, below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
