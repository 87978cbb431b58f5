package whatif

import (
	"maps"
	"math"
	"math/bits"
)

// distinct counts the keys that were added. Without a set of them it estimates:
// HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007), and linear counting for few
// keys. The standard error is 3 %.
type distinct struct {
	registers [registers]uint8
	keys      map[uint64]struct{} // if not nil, all keys
}

const registers = 1024

func (d *distinct) add(h uint64) {
	if d.keys != nil {
		d.keys[h] = struct{}{}
		return
	}
	r := &d.registers[h%registers]
	*r = max(*r, uint8(bits.LeadingZeros64(h|registers-1)+1))
}

func (d *distinct) merge(other distinct) {
	for i, r := range other.registers {
		d.registers[i] = max(d.registers[i], r)
	}
	if d.keys == nil {
		d.keys = other.keys
	} else {
		maps.Copy(d.keys, other.keys)
	}
}

func (d *distinct) estimate() float64 {
	const bias = 0.7213 / (1 + 1.079/registers)
	if d.keys != nil {
		return float64(len(d.keys))
	}
	sum, empty := 0.0, 0
	for _, r := range d.registers {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			empty++
		}
	}
	e := bias * registers * registers / sum
	if e < 2.5*registers && empty > 0 {
		e = registers * math.Log(registers/float64(empty))
	}
	return math.Round(e)
}
