package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sketchlimit/sketchlimit/rules"
)

// goodRules keeps the last rules that were good, beside the snapshots of counts: a
// start with wrong ones goes on with them.
type goodRules struct {
	folder string // "": none are kept
	logger *slog.Logger
}

// goodFile is where they are.
const goodFile = "rules.json"

// goodText is a file of rules as it is kept.
type goodText struct{ Name, Text string }

// keep keeps rules.
func (g *goodRules) keep(files []rules.File) {
	if g.folder == "" {
		return
	}
	texts := make([]goodText, len(files))
	for i, f := range files {
		texts[i] = goodText{f.Name, string(f.Data)}
	}
	text, err := json.MarshalIndent(texts, "", "  ")
	if err == nil {
		err = g.write(text)
	}
	if err != nil {
		g.logger.Error("good rules not kept", "error", err)
	}
}

// write replaces the file as a whole: a crash leaves the one before.
func (g *goodRules) write(text []byte) error {
	path := filepath.Join(g.folder, goodFile)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// read returns the rules that are kept, and when they were; none if there are none.
func (g *goodRules) read() (files []rules.File, kept time.Time) {
	if g.folder == "" {
		return nil, kept
	}
	path := filepath.Join(g.folder, goodFile)
	info, err := os.Stat(path)
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	var texts []goodText
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			g.logger.Error("good rules not read", "error", err)
		}
		return nil, kept
	}
	for _, t := range texts {
		files = append(files, rules.File{Name: t.Name, Data: []byte(t.Text)})
	}
	return files, info.ModTime()
}
