package sharing_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/sharing"
	"github.com/sketchlimit/sketchlimit/sharing/sharingtest"
)

// FuzzLog: whatever is in a log, nodes read it to its end, decide, and admit no more than
// their limit.
func FuzzLog(f *testing.F) {
	const limit = 100
	open := func(m *sharingtest.Memory) (*sketchlimit.Limiter, *sharing.Node, error) {
		l, err := sketchlimit.New(sketchlimit.Config{Limit: limit, Window: time.Hour, Keys: 100, Seed: 1,
			Clock: func() time.Time { return time.Unix(1_700_000_000, 0) }})
		if err != nil {
			return nil, nil, err
		}
		share, err := l.Share()
		if err != nil {
			return nil, nil, err
		}
		n, err := sharing.NewHub(m).Join(context.Background(), share, sharing.Config{Log: "log", Interval: time.Hour, Timeout: time.Minute,
			Window: time.Hour, LogBytes: 64, Report: func(error) {}})
		return l, n, err
	}
	// The records of two nodes of which one cuts the log.
	m := &sharingtest.Memory{}
	a, na, err := open(m)
	require.NoError(f, err)
	b, nb, err := open(m)
	require.NoError(f, err)
	var header []byte // the layout, which all records have
	begin, seeds := []byte(nil), map[string]bool{}
	for i := range 6 {
		a.AllowN("k", 3)
		b.AllowN("other", i)
		if i == 3 {
			require.NoError(f, m.Wipe()) // what was told is told again
		}
		for _, n := range []*sharing.Node{na, nb} {
			require.NoError(f, n.Exchange(f.Context()))
			records, err := m.Read(f.Context(), []sharing.Cursor{{Log: "log"}}, 0)
			require.NoError(f, err)
			for _, r := range records {
				header = r.Data[1:9]
				seed := append([]byte{r.Data[0]}, r.Data[9:]...)
				if begin == nil {
					begin = seed
				}
				if !seeds[string(seed)] {
					seeds[string(seed)] = true
					f.Add(begin, seed, i%2 == 0)
				}
			}
		}
	}
	na.Leave()
	nb.Leave()
	f.Fuzz(func(t *testing.T, one, other []byte, early bool) {
		m, ctx := &sharingtest.Memory{}, t.Context()
		put := func() {
			for _, data := range [][]byte{one, other} {
				if len(data) > 0 {
					record := append(append([]byte{data[0]}, header...), data[1:]...)
					require.NoError(t, m.Append(ctx, []sharing.Entry{{Log: "log", ID: string(data), Data: record, Keep: time.Hour, Begin: true}})[0].Err)
				}
			}
		}
		if early {
			put()
		}
		l, n, err := open(m)
		require.NoError(t, err)
		defer l.Close()
		defer n.Leave()
		if !early {
			put()
		}
		n.Exchange(ctx) // may have an error of the record
		admitted := 0
		for range 2 * limit {
			if l.Allow("k") {
				admitted++
			}
		}
		require.LessOrEqual(t, admitted, limit)
		n.Exchange(ctx)
		l2, n2, err := open(m)
		require.NoError(t, err)
		defer l2.Close()
		defer n2.Leave()
		require.GreaterOrEqual(t, l2.Peek("k").Remaining, 0)
		require.GreaterOrEqual(t, n.Stats().Nodes, 1)
	})
}
