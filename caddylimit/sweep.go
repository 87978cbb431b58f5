package caddylimit

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// Snapshots are deleted when nobody has written them for so long, and for as long as
// the counts of their zone matter, if there is one of that name. Those of zones that
// this instance does not know may be another instance's.
const (
	staleAfter     = 24 * time.Hour      // of a zone that is there, or that this instance had
	abandonedAfter = 30 * 24 * time.Hour // of any other
)

// sweep deletes snapshots that are of no use any more.
func sweep(k kept) {
	if k.every == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	keys, err := k.storage.List(ctx, storageRoot, true)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	stale := staleness()
	for _, key := range keys {
		info, e := k.storage.Stat(ctx, key)
		if e != nil || !info.IsTerminal {
			continue // another instance may have deleted it
		}
		if time.Since(info.Modified) > stale(key) {
			err = errors.Join(err, k.storage.Delete(ctx, key))
		}
	}
	if err != nil {
		log().Warn("old counts were not deleted", zap.String("storage_key", storageRoot), zap.Error(err))
	}
}

// staleness returns a function that tells how old a snapshot must be, by its key, for
// it to be of no use.
func staleness() func(key string) time.Duration {
	folders := map[string]time.Duration{}
	for _, s := range current() {
		if s.saver == nil {
			continue
		}
		after := staleAfter
		for _, l := range s.limiters {
			after = max(after, lasts(l.config))
			for _, f := range l.live(timeNow()) {
				after = max(after, lasts(f.config))
			}
		}
		folders[s.saver.folder] = after
	}
	instance, err := caddy.InstanceID()
	return func(key string) time.Duration {
		if after := folders[path.Dir(key)]; after > 0 {
			return after
		}
		if err == nil && strings.HasPrefix(path.Base(key), instance.String()) {
			return staleAfter
		}
		return abandonedAfter
	}
}
