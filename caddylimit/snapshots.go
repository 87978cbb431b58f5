package caddylimit

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/sketchlimit/sketchlimit"
)

// kept says where counts are kept over a restart, and how often.
type kept struct {
	config  *prometheus.Registry // that says so: each has a registry of its own
	storage certmagic.Storage
	where   string        // the storage as text
	every   time.Duration // 0: never
}

// text returns how often, as in a Caddyfile.
func (k kept) text() string {
	if k.every == 0 {
		return "off"
	}
	return k.every.String()
}

// saver keeps the counts of a zone in a storage. The keys there hold the instance's own
// number, because instances may have one storage in common, and the zone's settings, so
// that counts of others are not taken for its own.
type saver struct {
	folder   string // of the zone, which instances have in common
	keys     []string
	limiters []*limiter
	due      atomic.Bool // there is something that was not kept
	changed  chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
	saving   sync.Mutex // one at a time, or an old snapshot could replace a new one

	mu   sync.Mutex
	kept kept
}

const (
	storageRoot    = "sketch_rate_limit"
	storageTimeout = 10 * time.Second
)

// newSaver returns one that has restored what was kept; nil if the instance cannot have
// a number of its own.
func newSaver(zone, identity string, limiters []*limiter, k kept) *saver {
	instance, err := caddy.InstanceID()
	if err != nil {
		log().Warn("counts are not kept over a restart: the instance has no number", zap.Error(err))
		return nil
	}
	s := &saver{
		folder: path.Join(storageRoot, name(zone)), limiters: limiters, kept: k,
		changed: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	for i, l := range limiters {
		l.saver = s
		s.keys = append(s.keys, path.Join(s.folder, fmt.Sprintf("%s-%s-%d", instance, digest(identity), i)))
	}
	if k.every > 0 {
		s.restore()
	}
	go s.run()
	return s
}

// name returns a text that no storage takes amiss, different ones for different zones.
func name(zone string) string { return certmagic.StorageKeys.Safe(zone) + "-" + digest(zone) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// restore loads what was kept. What cannot be restored is told and left behind.
func (s *saver) restore() {
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	for i, key := range s.keys {
		for key, unpack := range map[string]func([]byte) error{
			key:              func(packed []byte) error { return unpack(s.limiters[i].Limiter, packed) },
			key + formersKey: s.limiters[i].unpackFormers,
		} {
			snapshot, err := s.kept.storage.Load(ctx, key)
			if err == nil {
				err = unpack(snapshot)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				log().Warn("counts were not restored: clients have a fresh quota",
					zap.String("storage_key", key), zap.Error(err))
			}
		}
	}
}

// keep says where and how often from now on.
func (s *saver) keep(k kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = k
	s.due.Store(true) // there, nothing may be kept yet
	for _, l := range s.limiters {
		l.owed.Store(l.formers.Load() != nil)
	}
	s.tell()
}

// tell makes run look at what has changed.
func (s *saver) tell() {
	select {
	case s.changed <- struct{}{}:
	default: // it is told already
	}
}

func (s *saver) now() kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// run saves again and again, until it is stopped.
func (s *saver) run() {
	defer close(s.stopped)
	saved := time.Now()
	for {
		var next <-chan time.Time
		if every := s.now().every; every > 0 {
			next = time.After(time.Until(saved.Add(every)))
		}
		select {
		case <-next:
			s.save()
			saved = time.Now()
		case <-s.changed:
			if s.owes() { // or else all quotas were fresh if the process died before the next one
				s.save()
				saved = time.Now()
			}
		case <-s.stop:
			s.save()
			return
		}
	}
}

// owes reports whether replaced limiters have counts that must be saved.
func (s *saver) owes() bool {
	return slices.ContainsFunc(s.limiters, func(l *limiter) bool { return l.owed.Load() })
}

// save keeps the counts, if there are any that were not kept. Former limiters count no
// more once their config has ended, so they are kept only then and when it is replaced.
func (s *saver) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	k := s.now()
	if k.every == 0 {
		return
	}
	due := s.due.Swap(false)
	ctx, cancel := context.WithTimeout(context.Background(), storageTimeout)
	defer cancel()
	store := func(key string, pack func() ([]byte, error), again *atomic.Bool) {
		snapshot, err := pack()
		if err == nil {
			err = k.storage.Store(ctx, key, snapshot)
		}
		if err != nil {
			again.Store(true)
			log().Error("counts were not saved: after a restart clients have more than their limit",
				zap.String("storage_key", key), zap.Error(err))
		}
	}
	for i, l := range s.limiters {
		if l.owed.Swap(false) {
			store(s.keys[i]+formersKey, l.packFormers, &l.owed)
		}
		if due {
			store(s.keys[i], func() ([]byte, error) { return pack(l.Limiter) }, &s.due)
		}
	}
}

// pack returns a snapshot of a limiter, compressed: one that is made for more keys than
// come is mostly zeros.
func pack(l *sketchlimit.Limiter) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := l.WriteTo(w); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}

// unpack restores a snapshot.
func unpack(l *sketchlimit.Limiter, packed []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	_, err = l.ReadFrom(r)
	return err
}

// close saves what there is and ends.
func (s *saver) close() {
	close(s.stop)
	<-s.stopped
}
