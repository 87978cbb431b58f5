package sketchlimit

import (
	"fmt"
	"io"
	"os"

	"github.com/sketchlimit/sketchlimit/internal/savefile"
)

// Save writes a snapshot to a file of mode 0600, see [Limiter.WriteTo]. The file is
// complete or as it was, even after a crash of the program or the machine: Save writes
// to path + ".tmp" and a random number, syncs, and renames.
//
// A file or a symbolic link at path is replaced, so nothing is written where a link
// points. A save that is killed leaves its temporary file, which a later Save to the
// same path removes once it is an hour old. No other program may use such names in the
// folder.
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
