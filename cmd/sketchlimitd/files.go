package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/sketchlimit/sketchlimit/rules"
)

// files are the rules under RUNTIME_ROOT.
type files struct {
	settings *settings
	logger   *slog.Logger
	load     func([]rules.File, error) error

	mu sync.Mutex // held from reading to loading, so that what is read last is loaded last
}

// watch loads the files, and again whenever they change, until the context ends.
func (f *files) watch(ctx context.Context) error {
	err := watch(ctx, f.logger, f.watched, f.matters, f.reload)
	if err != nil {
		return fmt.Errorf("RUNTIME_ROOT %q, RUNTIME_SUBDIRECTORY %q, RUNTIME_WATCH_ROOT %t: %w",
			f.settings.RuntimeRoot, f.settings.RuntimeSubdirectory, f.settings.RuntimeWatchRoot, err)
	}
	return nil
}

// reload reads and loads the files.
func (f *files) reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.load(f.read())
}

// dir is the folder that is read, and where rules begin in it: the names of others do
// not have the prefix.
func (f *files) dir() (dir, prefix string) {
	dir = filepath.Join(f.settings.RuntimeRoot, f.settings.RuntimeSubdirectory)
	if f.settings.RuntimeWatchRoot {
		return dir, f.settings.RuntimeAppDirectory + "."
	}
	return filepath.Join(dir, f.settings.RuntimeAppDirectory), ""
}

// watched are the folders whose entries are watched. With RUNTIME_WATCH_ROOT it is the
// one in which a new link takes the place of RUNTIME_ROOT, and otherwise that of the
// rules with all folders below it.
func (f *files) watched() (dirs []string) {
	if f.settings.RuntimeWatchRoot {
		return []string{filepath.Dir(filepath.Clean(f.settings.RuntimeRoot))}
	}
	root, _ := f.dir()
	dirs = []string{root}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// matters reports whether an event concerns the rules. Reading the rules makes no such
// event.
func (f *files) matters(e fsnotify.Event) bool {
	return !f.settings.RuntimeWatchRoot || e.Name == filepath.Clean(f.settings.RuntimeRoot)
}

// read reads all files of the rules.
func (f *files) read() ([]rules.File, error) {
	dir, prefix := f.dir()
	all, err := readFolder(dir, f.ignored)
	return slices.DeleteFunc(all, func(file rules.File) bool { return !strings.HasPrefix(file.Name, prefix) }), err
}

// readFolder reads all files, also in folders below, under names in which dots stand
// for slashes. Links to folders are not followed.
func readFolder(dir string, ignored func(name string) bool) (all []rules.File, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && ignored(d.Name()) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(relative, string(filepath.Separator), ".")
		data, err := os.ReadFile(path)
		all = append(all, rules.File{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rules in %s: %w", dir, err)
	}
	return all, nil
}

// ignored reports whether a file or folder holds no rules. Kubernetes keeps the targets
// of its links in folders whose names begin with two dots: they hold each file a second
// time.
func (f *files) ignored(name string) bool {
	return strings.HasPrefix(name, "..") || f.settings.RuntimeIgnoreDotFiles && strings.HasPrefix(name, ".")
}
