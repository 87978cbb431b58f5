package redislimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
)

// engine keeps logs in streams. What precedes the first colon of a log's name chooses its slot of a cluster.
type engine struct {
	client redis.UniversalClient
	skew   atomic.Int64 // ns that this machine's clock is ahead, by the latest record

	mu      sync.Mutex
	expires map[string]time.Time // when a stream's time to live is to be set again
	runID   string               // of the server, "" if not known
	asked   time.Time            // for it
}

// askEvery is how often the server is asked whether it is still the same: clients reconnect without a word, and one
// that was started again, or took over, may have lost the latest records.
const askEvery = 10 * time.Second

var errRestarted = errors.New("redislimit: Redis was started again, or another server has taken over: what it may have lost is told again")

// restarted returns errRestarted once if the server of a stream is another one than before. It asks seldom.
func (e *engine) restarted(ctx context.Context, stream string) error {
	e.mu.Lock()
	due := time.Since(e.asked) > askEvery
	if due {
		e.asked = time.Now()
	}
	e.mu.Unlock()
	if !due {
		return nil
	}
	var server redis.Cmdable = e.client
	switch client := e.client.(type) {
	case *redis.ClusterClient:
		if master, err := client.MasterForKey(ctx, stream); err == nil {
			server = master
		}
	case *redis.Ring:
		if shard, err := client.GetShardClientForKey(stream); err == nil {
			server = shard
		}
	}
	info, err := server.Info(ctx, "server").Result()
	if err != nil {
		return nil // it may not be allowed to be asked, and what fails otherwise shows itself
	}
	_, id, _ := strings.Cut(info, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.runID
	if e.runID = id; before != "" && id != before {
		return errRestarted
	}
	return nil
}

// readCount is how many records of a stream are read at once: a mebibyte at most.
const readCount = 128

// stream returns the name of a log's stream.
func stream(log string) string { return "{" + tag(log) + "}" + log[len(tag(log)):] + ":log" }

// tag returns what chooses the slot.
func tag(log string) string {
	before, _, _ := strings.Cut(log, ":")
	return before
}

// Append implements [sharing.Engine].
func (e *engine) Append(ctx context.Context, entries []sharing.Entry) []sharing.Result {
	pipe := e.client.Pipeline()
	added := make([]*redis.StringCmd, len(entries))
	start, now := time.Now(), sketchlimit.Now()
	for i, entry := range entries {
		key := stream(entry.Log)
		added[i] = pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, NoMkStream: !entry.Begin, Values: []any{"d", entry.Data}})
		if e.expiresSoon(entry, start) {
			pipe.PExpire(ctx, key, entry.Keep)
		}
	}
	_, failed := pipe.Exec(ctx) // each command has its error, unless no connection came about
	took := time.Since(start)
	results := make([]sharing.Result, len(entries))
	away := false
	for i, cmd := range added {
		id, err := cmd.Result()
		switch {
		case errors.Is(err, redis.Nil):
			err = sharing.ErrNoLog
		case err == nil && id == "":
			err = failed
			if err == nil {
				err = errNoAnswer
			}
		}
		if err == nil {
			results[i].Place, err = parseID(id)
		}
		if err == nil {
			e.skew.Store(int64(now.Add(took / 2).Sub(time.UnixMilli(int64(results[i].Place.Major)))))
			continue
		}
		e.forget(entries[i].Log)
		if err != sharing.ErrNoLog {
			away, err = true, fmt.Errorf("redislimit: %w", err)
		}
		results[i].Err = err
	}
	if away {
		e.lookAgain(ctx)
	}
	return results
}

var errNoAnswer = errors.New("no answer")

// expiresSoon reports whether a stream's time to live is to be set, and notes that it is.
func (e *engine) expiresSoon(entry sharing.Entry, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !entry.Begin && now.Before(e.expires[entry.Log]) {
		return false
	}
	if e.expires == nil {
		e.expires = map[string]time.Time{}
	}
	e.expires[entry.Log] = now.Add(entry.Keep / 16)
	return true
}

// forget lets the next entry set the time to live of its stream.
func (e *engine) forget(log string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.expires, log)
}

// lookAgain lets a cluster's client look for new masters; left alone, it looks once a minute.
func (e *engine) lookAgain(ctx context.Context) {
	if cluster, ok := e.client.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// Read implements [sharing.Engine].
func (e *engine) Read(ctx context.Context, from []sharing.Cursor, wait time.Duration) ([]sharing.Record, error) {
	records, err := e.readOnce(ctx, from, wait)
	if len(from) == 1 || !isReply(err) {
		return records, err
	}
	// One of them may be of another type, or the user's rights may leave it out.
	var errs []error
	for _, c := range from {
		some, err := e.readOnce(ctx, []sharing.Cursor{c}, 0)
		if err != nil {
			errs = append(errs, &sharing.LogError{Log: c.Log, Err: err})
		}
		records = append(records, some...)
	}
	return records, errors.Join(errs...)
}

func (e *engine) readOnce(ctx context.Context, from []sharing.Cursor, wait time.Duration) (records []sharing.Record, err error) {
	args := &redis.XReadArgs{Count: readCount, Block: -1}
	if wait > 0 {
		args.Block = max(wait, time.Millisecond)
	}
	logs := map[string]string{} // by stream
	for _, c := range from {
		args.Streams = append(args.Streams, stream(c.Log))
		logs[stream(c.Log)] = c.Log
	}
	for _, c := range from {
		args.Streams = append(args.Streams, id(c.After))
	}
	if wait > 0 { // by itself; whoever does not wait looks for what is missing
		if err := e.restarted(ctx, args.Streams[0]); err != nil {
			return nil, err
		}
	}
	streams, err := e.client.XRead(ctx, args).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		e.mu.Lock()
		e.asked = time.Time{}
		e.mu.Unlock()
		e.lookAgain(ctx)
		return nil, fmt.Errorf("redislimit: %w", err)
	}
	for _, s := range streams {
		for _, m := range s.Messages {
			place, err := parseID(m.ID)
			if err != nil {
				return nil, err
			}
			data, _ := m.Values["d"].(string) // one without is none of a node
			records = append(records, sharing.Record{Log: logs[s.Stream], Place: place, Data: []byte(data)})
		}
	}
	return records, nil
}

// Trim implements [sharing.Engine].
func (e *engine) Trim(ctx context.Context, log string, upTo sharing.Place) error {
	upTo.Minor++
	if err := e.client.XTrimMinID(ctx, stream(log), id(upTo)).Err(); err != nil {
		return fmt.Errorf("redislimit: %w", err)
	}
	return nil
}

// id returns a place as Redis writes it.
func id(p sharing.Place) string {
	return strconv.FormatUint(p.Major, 10) + "-" + strconv.FormatUint(p.Minor, 10)
}

func parseID(text string) (p sharing.Place, err error) {
	if _, err := fmt.Sscanf(text, "%d-%d", &p.Major, &p.Minor); err != nil {
		return p, fmt.Errorf("redislimit: unexpected ID %.100q", text)
	}
	return p, nil
}

// hubs are those of this process, one for each client, and in a cluster for each slot.
var hubs = struct {
	sync.Mutex
	all map[hubID]*hub
}{all: map[hubID]*hub{}}

type hubID struct {
	client redis.UniversalClient
	tag    string
}

type hub struct {
	*sharing.Hub
	engine *engine
	users  int
}

// useHub returns the hub of a log, until it is released as often.
func useHub(client redis.UniversalClient, log string) (h *hub, release func()) {
	id := hubID{client: client}
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		id.tag = tag(log)
	}
	hubs.Lock()
	defer hubs.Unlock()
	h = hubs.all[id]
	if h == nil {
		e := &engine{client: client}
		h = &hub{Hub: sharing.NewHub(e), engine: e}
		hubs.all[id] = h
	}
	h.users++
	return h, sync.OnceFunc(func() {
		hubs.Lock()
		defer hubs.Unlock()
		if h.users--; h.users == 0 {
			delete(hubs.all, id)
		}
	})
}
