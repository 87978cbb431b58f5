package sharing

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// messages are one of each kind.
func messages() []message {
	return []message{
		{kind: news, number: 1, generation: -3, body: []byte{2, 2, 125, 3}},
		{kind: restated, number: 9, generation: 1 << 40, covers: 7, fragment: 1, of: 3, body: []byte{2}},
		{kind: known, number: 300, place: Place{1 << 63, 7}, of: 2, body: seenMessage(12, 15)},
		{kind: known, number: 301, place: Place{1 << 63, 7}, fragment: 1, of: 2, generation: 4, body: []byte{2}},
		{kind: hello, number: math.MaxInt64},
		{kind: begin, number: 1},
		{kind: bye, number: 2},
	}
}

// seenMessage returns what was seen of a node: some of its messages.
func seenMessage(node uint64, numbers ...uint64) []byte {
	var s seen
	for _, n := range numbers {
		s.add(n)
	}
	return s.append(binary.BigEndian.AppendUint64(nil, node))
}

func TestMessages(t *testing.T) {
	for _, m := range messages() {
		m.layout, m.node = 0xfeed, 0xbeef
		if m.body == nil {
			m.body = []byte{}
		}
		got, err := decode(m.encode())
		require.NoError(t, err)
		require.Equal(t, m, got)
		_, err = decode(m.encode()[:len(m.encode())-len(m.body)-1])
		require.Equal(t, errMessage, err, "kind %d, cut", m.kind)
	}
	for _, m := range []message{{kind: 0, number: 1}, {kind: bye + 1, number: 1}, {kind: news}, {kind: hello, number: 1 << 63},
		{kind: known, number: 9, fragment: 2, of: 2}, {kind: restated, number: 1, fragment: 1, of: 2}} {
		_, err := decode(m.encode())
		require.Equal(t, errMessage, err, "%+v", m)
	}
	_, err := decode(nil)
	require.Equal(t, errMessage, err)
}

// TestSeen holds what is remembered of numbers against a set of them: the highest, a bit
// for each of the 1024 up to it, and all before those.
func TestSeen(t *testing.T) {
	for _, steps := range [][]uint64{{1, 2, 3}, {5, 3, 9}, {1, 1024, 1025, 3000, 2500, 1000}, {1 << 62, 1<<62 - 1023, 1<<62 - 1024}} {
		var s seen
		set, highest := map[uint64]bool{}, uint64(0)
		for _, n := range steps {
			s.add(n)
			set[n] = true
			highest = max(highest, n)
			for i := highest - min(highest, 1100); i <= highest+5; i++ {
				want := set[i] && i+seenBits > highest || i+seenBits <= highest
				require.Equal(t, want, s.has(i), "%d of %d", i, steps)
			}
		}
		r := reader{data: s.append(nil)}
		require.Equal(t, s, r.seen())
		require.False(t, r.bad)
		require.Empty(t, r.data)
		var o seen
		require.True(t, s.beyond(&o))
		o.union(&s)
		require.False(t, s.beyond(&o))
	}
	var s seen
	s.upTo(5)
	require.True(t, s.has(1) && s.has(5) && !s.has(6))
}

// FuzzDecode: what is decoded is what encode makes of it.
func FuzzDecode(f *testing.F) {
	for _, m := range messages() {
		f.Add(m.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		require.NoError(t, err)
		require.Equal(t, m, again)
		require.NotZero(t, m.number)
		require.True(t, m.of == 0 || m.fragment < m.of)
		if m.kind == known && m.fragment == 0 {
			for id, s := range seenOf(m.body) {
				r := reader{data: s.append(binary.BigEndian.AppendUint64(nil, id))}
				require.Equal(t, id, r.uint64())
				require.Equal(t, s, r.seen())
				var o seen
				o.union(&s)
				require.True(t, s.max > math.MaxInt64 || !s.beyond(&o))
			}
		}
	})
}
