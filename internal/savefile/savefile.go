// Package savefile replaces files as a whole.
package savefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// saving lets saves of one process take turns.
var saving sync.Mutex

// Write writes a file that only its owner may read. It is there as a whole or as it
// was, also after a crash of the program or the machine: it is written under a new name
// in the same folder, made durable, and renamed. Temporary files of saves to the path
// that were killed an hour ago or more are removed.
func Write(path string, write func(io.Writer) error) error {
	saving.Lock()
	defer saving.Unlock()
	temporary, err := writeBeside(path, write)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		if temporary != "" {
			os.Remove(temporary)
		}
		return err
	}
	removeLeft(path)
	return syncFolder(filepath.Dir(path))
}

// writeBeside writes to a file that was not there, of mode 0600 from the start, and
// returns its name, "" if there is none.
func writeBeside(path string, write func(io.Writer) error) (temporary string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+temporaryMark+"*")
	if err != nil {
		return "", err
	}
	err = write(f)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}

const (
	temporaryMark = ".tmp"
	// leftFor is how old a temporary file is that no save is writing any more.
	leftFor = time.Hour
)

// removeLeft removes the temporary files of saves to a path that were killed. What
// cannot be removed stays for the next one.
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

// syncFolder makes the names of files durable. Windows knows no such call, and needs
// none.
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
