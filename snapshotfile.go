package sketchlimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// saving lets saves of one process take turns.
var saving sync.Mutex

// Save writes a snapshot to a file that only its owner may read, see [Limiter.WriteTo]. The
// file is there as a whole or as it was, also after a crash of the program or the machine: it is
// written under a new name in the same folder, path + ".tmp" and a random number, made durable,
// and renamed.
//
// What is at path is replaced: a file of another mode by one of mode 0600, and a symbolic link
// by a file, so that nothing is written where a link points. A save that is killed leaves its
// temporary file; the next Save to the same path that succeeds removes it once it is an hour
// old. Nobody else may give files in the folder such names.
func (l *Limiter) Save(path string) error {
	saving.Lock()
	defer saving.Unlock()
	temporary, err := l.writeBeside(path)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		if temporary != "" {
			os.Remove(temporary)
		}
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	removeLeft(path)
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	return nil
}

// writeBeside writes a snapshot to a file that was not there, of mode 0600 from the start, and
// returns its name, "" if there is none.
func (l *Limiter) writeBeside(path string) (temporary string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+temporaryMark+"*")
	if err != nil {
		return "", err
	}
	_, err = l.WriteTo(f)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

const (
	temporaryMark = ".tmp"
	// leftFor is how old a temporary file is that no save is writing any more.
	leftFor = time.Hour
)

// removeLeft removes the temporary files of saves to a path that were killed. What cannot be
// removed stays for the next one.
func removeLeft(path string) {
	prefix := filepath.Base(path) + temporaryMark
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), prefix)
		if !ours || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftFor {
			os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}

// syncFolder makes the names of files durable. Windows knows no such call, and needs none.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Load restores the snapshot of a file, see [Limiter.ReadFrom]. Its error wraps
// [io/fs.ErrNotExist] if there is none.
func (l *Limiter) Load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sketchlimit: %w", err)
	}
	defer f.Close()
	_, err = l.ReadFrom(f)
	return err
}
