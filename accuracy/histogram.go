package accuracy

// Histogram counts non-negative integers: exactly below 32, in buckets at most
// 1/16 of their value wide above. The zero value is empty and ready to use.
// Its JSON form is {"count", "mean", "max", "p50", "p99", "p999", "bins": [{"from", "to", "count"}…]}.
type Histogram struct{}

// Bin is a non-empty stretch of a histogram: From … To, both included.
type Bin struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Count uint64 `json:"count"`
}

func (h *Histogram) Add(v int)     { panic("todo") }
func (h *Histogram) Count() uint64 { panic("todo") }
func (h *Histogram) Mean() float64 { panic("todo") }
func (h *Histogram) Max() int      { panic("todo") }

// Quantile is the smallest value that at least a share q of the entries do not
// exceed, to the width of a bin; 0 if there are none.
func (h *Histogram) Quantile(q float64) int { panic("todo") }

// Bins are the non-empty bins in ascending order.
func (h *Histogram) Bins() []Bin { panic("todo") }
