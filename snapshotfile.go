package sketchlimit

import (
	"fmt"
	"io"
	"os"

	"github.com/sketchlimit/sketchlimit/internal/savefile"
)

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
	err := savefile.Write(path, func(w io.Writer) error {
		_, err := l.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("sketchlimit: saving a snapshot: %w", err)
	}
	return nil
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
