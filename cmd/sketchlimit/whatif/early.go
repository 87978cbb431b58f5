package whatif

// early keeps the first requests, until it is known whether there are few.
type early struct {
	options  Options
	most     int
	requests []kept
	keys     [][]byte
	ids      map[string]uint32
	bytes    int // of the keys
}

// kept is a request whose key is known by its number.
type kept struct {
	at   int64
	key  uint32
	cost uint32
}

// earlyBytes of keys are as many as are kept.
const earlyBytes = 64 << 20

// add keeps requests; not ok if they are too many.
func (e *early) add(batch []Request) (ok bool) {
	if len(e.requests)+len(batch) >= e.most || e.bytes >= earlyBytes {
		return false
	}
	for i := range batch {
		r := &batch[i]
		id, known := e.ids[string(r.Key)]
		if !known {
			id = uint32(len(e.keys))
			key := append([]byte(nil), r.Key...)
			e.keys, e.bytes = append(e.keys, key), e.bytes+len(key)
			e.ids[string(key)] = id
		}
		e.requests = append(e.requests, kept{r.At, id, r.Cost})
	}
	return true
}

// replay counts what was kept.
func (e *early) replay(a *Analysis) {
	batch := make([]Request, 0, chunkLength)
	for i, r := range e.requests {
		batch = append(batch, Request{At: r.at, Key: e.keys[r.key], Cost: r.cost})
		if len(batch) == chunkLength || i == len(e.requests)-1 {
			a.Add(batch)
			batch = batch[:0]
		}
	}
}

// report is exact.
func (e *early) report() *Report {
	o := e.options
	o.Exact, o.ExactBelow = true, 0
	a, err := New(o)
	if err != nil {
		panic(err) // the same options have made the Analysis that e belongs to
	}
	e.replay(a)
	return a.Report()
}
