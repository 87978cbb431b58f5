package rules

import "strings"

// level is what the reference names a rule's statistics by, of one level.
type level struct {
	composite string // key_value of the file
	share     bool   // the value of the file stands for all values
	toMetric  bool   // the value of the request stands in its place
}

// StatsName returns the name that envoyproxy/ratelimit gives to the statistics of the
// rule for a descriptor that leads to it: domain.key_value.key_value…, with the values
// of the file or, where detailed_metric or value_to_metric say so, of the request.
// Names with values of requests are as many as those are: whoever counts by them needs
// a bound.
func (r *Rule) StatsName(d Descriptor) string {
	if !r.NamedByRequest || len(d) != len(r.levels) {
		return r.Domain + "." + r.Path
	}
	shares := false
	for _, l := range r.levels {
		shares = shares || l.share
	}
	var b strings.Builder
	b.WriteString(r.Domain)
	for i, l := range r.levels {
		b.WriteByte('.')
		switch e := d[i]; {
		case l.share || !r.detailed && !l.toMetric:
			b.WriteString(l.composite)
		case e.Value == "" && (shares || !r.detailed): // otherwise the reference leaves a _ behind the key
			b.WriteString(e.Key)
		default:
			b.WriteString(e.Key + "_" + e.Value)
		}
	}
	return b.String()
}
