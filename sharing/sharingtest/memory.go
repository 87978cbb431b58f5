package sharingtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sketchlimit/sketchlimit/sharing"
)

// Memory is an engine in this process. All users of one Memory are clients of the same
// server. The zero value has no logs. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	logs    map[string]*log
	epoch   uint64        // how often a log was lost
	last    uint64        // place
	changed chan struct{} // closed by the next entry
}

type log struct {
	records []sharing.Record
	expires time.Time
}

// Append implements [sharing.Engine].
func (m *Memory) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]sharing.Result, len(entries))
	for i, e := range entries {
		l := m.log(e.Log)
		switch {
		case ctx.Err() != nil:
			results[i].Err = ctx.Err()
			continue
		case l == nil && !e.Begin:
			results[i].Err = sharing.ErrNoLog
			continue
		case l == nil:
			l = &log{}
			if m.logs == nil {
				m.logs = map[string]*log{}
			}
			m.logs[e.Log] = l
		}
		m.last++
		l.expires = time.Now().Add(e.Keep)
		results[i].Place = sharing.Place{Major: m.epoch + 1, Minor: m.last}
		l.records = append(l.records, sharing.Record{Log: e.Log, Place: results[i].Place, Data: slices.Clone(e.Data)})
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	return results
}

// log returns a log that is there and has not expired.
func (m *Memory) log(name string) *log {
	l := m.logs[name]
	if l != nil && time.Now().After(l.expires) {
		delete(m.logs, name)
		m.epoch++ // places rise, also over logs of one name
		return nil
	}
	return l
}

// Read implements [sharing.Engine].
func (m *Memory) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) (records []sharing.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		m.mu.Lock()
		for _, c := range from {
			if l := m.log(c.Log); l != nil {
				i, _ := slices.BinarySearchFunc(l.records, c.After, func(r sharing.Record, after sharing.Place) int {
					if r.Place.Compare(after) <= 0 {
						return -1
					}
					return 1
				})
				records = append(records, l.records[i:min(len(l.records), i+most)]...)
			}
		}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		if len(records) > 0 || wait == 0 {
			return records, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// most is how many records of a log are read at once.
const most = 100

// Trim implements [sharing.Engine].
func (m *Memory) Trim(_ context.Context, name string, upTo sharing.Place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.log(name); l != nil {
		l.records = slices.DeleteFunc(l.records, func(r sharing.Record) bool { return r.Place.Compare(upTo) <= 0 })
	}
	return nil
}

// Wipe loses all.
func (m *Memory) Wipe() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs = nil
	m.epoch++
	return nil
}

// Bytes returns how many bytes a log has.
func (m *Memory) Bytes(name string) (bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.log(name); l != nil {
		for _, r := range l.records {
			bytes += len(r.Data)
		}
	}
	return bytes
}
