package sketchlimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// saving lets saves of one process take turns.
var saving sync.Mutex

// Save writes a snapshot to a file that only its owner may read, see [Limiter.WriteTo]. The
// file is there as a whole or as it was, also after a crash of the program or the machine: it is
// written as path + ".tmp", made durable, and renamed. No other process may save under that path.
func (l *Limiter) Save(path string) error {
	saving.Lock()
	defer saving.Unlock()
	temporary := path + ".tmp"
	if err := l.write(temporary); err != nil {
		os.Remove(temporary)
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	return nil
}

func (l *Limiter) write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = l.WriteTo(f)
	return errors.Join(err, f.Sync(), f.Close())
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
