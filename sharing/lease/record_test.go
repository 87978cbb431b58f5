package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var testRules = Rules{Machines: 3, Limit: 20, Lowest: 20, Lease: 50, Settle: 20, Entries: 8}

// randomRecord returns a record of one of five nodes.
func randomRecord(r *rand.Rand, numbers map[uint64]uint64, now int64) Record {
	node := 1 + r.Uint64N(5)
	numbers[node] += r.Uint64N(2)
	rec := Record{Node: node, Number: numbers[node], Time: now, Until: now + r.Int64N(60), Reset: r.IntN(500) == 0, Leave: r.IntN(50) == 0}
	for range r.IntN(4) {
		op := Op{Kind: Claim + OpKind(r.IntN(3)), Key: r.Uint64N(12), N: r.IntN(25)}
		if op.Kind == Claim {
			op.Limit = 15 + r.IntN(6)
		}
		rec.Ops = append(rec.Ops, op)
	}
	return rec
}

func TestMessage_RoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := map[uint64]uint64{}
	for i := range 1000 {
		m := Message{Layout: r.Uint64(), Chain: Chain{r.Uint32(), r.Uint64N(1 << 40), r.Uint32()}, Record: randomRecord(r, numbers, int64(i))}
		got, err := Decode(m.Append(nil))
		require.NoError(t, err)
		require.Equal(t, m, got)
		data := m.Append(nil)
		_, err = Decode(data[:r.IntN(20)])
		require.ErrorIs(t, err, ErrRecord)
	}
}

// A State that was written and loaded goes on as the one that was not.
func TestState_RoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a, err := New(testRules)
	require.NoError(t, err)
	numbers := map[uint64]uint64{}
	for i := range 20_000 {
		if i%50 == 0 {
			b, err := New(testRules)
			require.NoError(t, err)
			require.NoError(t, b.Load(a.Append(nil)))
			require.Equal(t, a.Append(nil), b.Append(nil))
			a = b
		}
		rec := randomRecord(r, numbers, int64(i/4))
		a.Apply(&rec, nil)
		check(t, a)
	}
}

// check holds a State against what must be true of each.
func check(t *testing.T, s *State) {
	t.Helper()
	shares := 0
	for m := range s.members {
		if s.members[m].share {
			shares++
		}
	}
	require.LessOrEqual(t, shares, s.rules.Machines)
	for key := range s.Keys {
		e, sum := &s.entries[s.index[key]], 0
		for m := range s.members {
			sum += int(s.holdings[int(s.index[key])*len(s.members)+m])
		}
		require.Equal(t, sum, e.total)
		require.LessOrEqual(t, sum, e.limit)
	}
	require.Equal(t, s.rules.Entries, len(s.index)+len(s.free))
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	numbers := map[uint64]uint64{}
	for i := range 20 {
		m := Message{Record: randomRecord(r, numbers, int64(i))}
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := New(testRules)
		require.NoError(t, err)
		if m, err := Decode(data); err == nil && m.Parts == 0 {
			again, err := Decode(m.Append(nil))
			require.NoError(t, err)
			require.Equal(t, m, again)
			s.Apply(&m.Record, nil)
			check(t, s)
		}
		if s.Load(data) == nil {
			check(t, s)
		}
	})
}
