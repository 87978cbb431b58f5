// Package page helps to write the records of measurements: a section of a Markdown
// file, and a picture.
package page

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Provenance returns the line that says how a measurement was made: machine, Go version,
// date and command.
func Provenance(command string, now time.Time) string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s, %s: `%s`\n", processor(), runtime.NumCPU(),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, now.UTC().Format(time.DateOnly), command)
}

// processor is the model of the CPU where the system tells it.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// Section finds what stands between a document's markers of the given name.
func Section(document []byte, name string) (from, to int, err error) {
	begin, end := fmt.Sprintf("<!-- %s:begin -->", name), fmt.Sprintf("<!-- %s:end -->", name)
	for _, marker := range []string{begin, end} {
		if n := bytes.Count(document, []byte(marker)); n != 1 {
			return 0, 0, fmt.Errorf("marker %s: found %d times, must be there once", marker, n)
		}
	}
	from = bytes.Index(document, []byte(begin)) + len(begin)
	to = bytes.Index(document, []byte(end))
	if from > to {
		return 0, 0, fmt.Errorf("marker %s: must come after %s", end, begin)
	}
	return from, to, nil
}

// Replace puts text between the markers of the given name, and changes nothing else.
func Replace(document []byte, name, text string) ([]byte, error) {
	from, to, err := Section(document, name)
	if err != nil {
		return nil, err
	}
	return []byte(string(document[:from]) + "\n" + text + string(document[to:])), nil
}

// Record is a Markdown file with sections that measurements write. The zero Record writes
// nothing.
type Record struct{ path string }

// Open returns the record at path; "" is the zero Record. It returns an error if one of
// the sections is missing, so that this is found before the measurement.
func Open(path string, sections ...string) (Record, error) {
	if path == "" {
		return Record{}, nil
	}
	document, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	for _, name := range sections {
		if _, _, err := Section(document, name); err != nil {
			return Record{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return Record{path}, nil
}

// Write replaces what is in a section.
func (r Record) Write(section, text string) error {
	if r.path == "" {
		return nil
	}
	document, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	if document, err = Replace(document, section, text); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	return os.WriteFile(r.path, document, 0o644)
}

// Picture returns the line that shows a picture in the record; "" without either.
func (r Record) Picture(caption, picture string) string {
	if r.path == "" || picture == "" {
		return ""
	}
	link, err := filepath.Rel(filepath.Dir(r.path), picture)
	if err != nil {
		link = picture
	}
	return fmt.Sprintf("![%s](%s)\n\n", caption, filepath.ToSlash(link))
}

// Grouped writes 1000000 as 1,000,000.
func Grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Grouped(n/1000), n%1000)
}

// Stamped puts the seconds since its start before all that is written to it.
type Stamped struct {
	io.Writer
	Start time.Time
}

func (s *Stamped) Write(line []byte) (int, error) {
	if _, err := fmt.Fprintf(s.Writer, "%4.0f s  %s", time.Since(s.Start).Seconds(), line); err != nil {
		return 0, err
	}
	return len(line), nil
}
