package exact

import (
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzOperations reads an algorithm, its parameters and a schedule from the input and
// holds the one to its definition over the other.
func FuzzOperations(f *testing.F) {
	for i := range 10 {
		f.Add(uint8(i), uint16(i), []byte{0, 1, 0, 1, 0, 1, 0, 1, 2, 9, 0, 9, 1, 60, 0, 2, 3, 0, 0, 0, 0, 200, 1, 1})
	}
	f.Fuzz(func(t *testing.T, algorithm uint8, parameters uint16, data []byte) {
		all := contestants(random(int(parameters)))
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		c := all[names[int(algorithm)%len(names)]]
		run(t, c.Limiter, c.definition, decode(data, c.align > 0))
	})
}

// decode reads four bytes an operation: kind and key, step of time (two, signed),
// units.
func decode(data []byte, aligned bool) (ops []op) {
	var now, latest int64
	for ; len(data) >= 4 && len(ops) < 200; data = data[4:] {
		o := op{kind: data[0] & 3, key: string('a' + rune(data[0]>>2&1)), n: int(data[3] & 15)}
		now = max(0, now+int64(int16(binary.LittleEndian.Uint16(data[1:]))))
		if !aligned && data[0]&128 == 0 { // sweeps are for times in order
			now = max(now, latest)
		}
		latest = max(latest, now)
		o.at = now
		if o.kind == opSweep {
			if !aligned {
				continue
			}
			o.at = latest
		}
		ops = append(ops, o)
	}
	return ops
}
