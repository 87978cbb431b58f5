package accuracy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mainField is the field that may follow the name of a kind directly.
var mainField = map[Kind]string{
	Uniform: "",
	Zipf:    "exponent",
	Flash:   "factor",
	Attack:  "factor",
	Scan:    "share",
}

var kinds = []Kind{Uniform, Zipf, Flash, Attack, Scan}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Workloads lists an example specification of every kind, for help texts.
func Workloads() []string {
	return []string{
		"uniform,keys=1e6,requests=2e6",
		"zipf:1.0,keys=1e6,requests=2e6",
		"flash:5,keys=1e5,crowd=5e5,start=1.5,length=1",
		"attack:3,keys=5e4,abusers=500,limit=100",
		"scan:0.9,keys=1e5,requests=1e6",
	}
}

// field is one number of a Workload under its name in a specification.
// maxRequests is what a Workload may have; an int of 32 bits holds no more.
const maxRequests = min(1e12, math.MaxInt)

type field struct {
	name   string
	value  any // *int, *float64, *uint64 or *time.Duration
	lo, hi float64
	above  bool // lo itself is not allowed
}

// fields are those that w.Kind makes use of.
func (w *Workload) fields() []field {
	f := []field{
		{"keys", &w.Keys, 1, 1e8, false},
		{"requests", &w.Requests, 1, maxRequests, false},
		{"windows", &w.Windows, 1, 1e6, false},
		{"window", &w.Window, float64(time.Millisecond), float64(8760 * time.Hour), false},
		{"cost", &w.Cost, 1, 1e6, false},
		{"seed", &w.Seed, 0, math.MaxUint64, false},
	}
	switch w.Kind {
	case Zipf, Flash, Scan:
		f = append(f, field{"exponent", &w.Exponent, 0, 10, false})
	}
	switch w.Kind {
	case Flash, Attack:
		f = append(f, field{"factor", &w.Factor, 0, 1e6, true})
	}
	switch w.Kind {
	case Flash:
		f = append(f, field{"crowd", &w.Crowd, 1, 1e8, false},
			field{"start", &w.Start, 0, 1e6, false},
			field{"length", &w.Length, 0.001, 1e6, false})
	case Attack:
		f = append(f, field{"abusers", &w.Abusers, 1, 1e8, false},
			field{"limit", &w.Limit, 1, math.MaxInt32, false})
	case Scan:
		f = append(f, field{"share", &w.OneHit, 0, 1, true})
	}
	return f
}

func (f field) check() error {
	var v float64
	switch p := f.value.(type) {
	case *int:
		v = float64(*p)
	case *float64:
		v = *p
	case *time.Duration:
		v = float64(*p)
	case *uint64:
		return nil
	}
	if v >= f.lo && v <= f.hi && !(f.above && v == f.lo) { // NaN fails
		return nil
	}
	return fmt.Errorf("%s %s, must be %s", f.name, f.text(), f.allowed())
}

func (f field) text() string {
	switch p := f.value.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *time.Duration:
		return p.String()
	case *uint64:
		return strconv.FormatUint(*p, 10)
	}
	panic("accuracy: unknown type of field " + f.name)
}

func (f field) allowed() string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
	switch f.value.(type) {
	case *int:
		return "a whole number " + number(f.lo) + " … " + number(f.hi)
	case *time.Duration:
		return "a duration " + time.Duration(f.lo).String() + " … " + time.Duration(f.hi).String()
	case *uint64:
		return "a whole number 0 … 1<<64-1"
	}
	if f.above {
		return "above " + number(f.lo) + " … " + number(f.hi)
	}
	return number(f.lo) + " … " + number(f.hi)
}

// set reads text into the field and checks it.
func (f field) set(text string) error {
	bad := fmt.Errorf("%s %q, must be %s", f.name, text, f.allowed())
	switch p := f.value.(type) {
	case *int:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return bad
		}
		*p = int(v)
	case *float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return bad
		}
		*p = v
	case *time.Duration:
		v, err := time.ParseDuration(text)
		if err != nil {
			return bad
		}
		*p = v
	case *uint64:
		v, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return bad
		}
		*p = v
	}
	if f.check() != nil {
		return bad
	}
	return nil
}

// ParseWorkload reads a specification as given on a command line:
//
//	name[:main][,field=value…]      zipf:1.0,keys=1e6,requests=2e6
//
// The main parameter is the exponent of zipf, the factor of flash and attack,
// and the share of one-hit requests of scan; uniform has none. The fields are those of
// [Workload] in lower case, as far as the kind makes use of them, OneHit being called
// share. Counts may be written as 1e6, the window as a duration (10m). What the
// specification does not name is taken from base, and then from the defaults. The
// result is complete and its Source cannot fail. The error names the field, the
// value and what is allowed.
func ParseWorkload(spec string, base Workload) (Workload, error) {
	head, rest, more := strings.Cut(spec, ",")
	name, value, hasMain := strings.Cut(head, ":")
	w := base
	w.Kind = Kind(strings.TrimSpace(name))
	main, known := mainField[w.Kind]
	if !known {
		return Workload{}, fmt.Errorf("accuracy: workload %q: unknown, must be one of %s", name, kindNames())
	}
	var settings []string
	if hasMain {
		if main == "" {
			return Workload{}, fmt.Errorf("accuracy: workload %s: main parameter %q, it has none", w.Kind, value)
		}
		settings = append(settings, main+"="+value)
	}
	if more {
		settings = append(settings, strings.Split(rest, ",")...)
	}
	given, err := apply(w.fields(), settings)
	if err != nil {
		return Workload{}, fmt.Errorf("accuracy: workload %s: %w", w.Kind, err)
	}
	if !given["exponent"] && w.Exponent == 0 {
		w.Exponent = 1
	}
	w.fill()
	if !given["start"] && w.Start == 0 {
		w.Start = max(0, (float64(w.Windows)-w.Length)/2)
	}
	if err := w.check(); err != nil {
		return Workload{}, err
	}
	return w, nil
}

// apply sets fields from name=value pairs and tells which were named.
func apply(fields []field, settings []string) (given map[string]bool, err error) {
	given = make(map[string]bool)
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok {
			return nil, fmt.Errorf("%q, must be field=value", s)
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, unknownField(name, fields)
		}
		if given[name] {
			return nil, fmt.Errorf("%s given twice", name)
		}
		given[name] = true
		if err := fields[i].set(value); err != nil {
			return nil, err
		}
	}
	return given, nil
}

func unknownField(name string, fields []field) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return errors.New(strconv.Quote(name) + " unknown, must be one of " + strings.Join(names, ", "))
}

// String is the specification of w: ParseWorkload reads it back.
func (w Workload) String() string {
	return specText(string(w.Kind), mainField[w.Kind], w.fields())
}

func specText(name, main string, fields []field) string {
	b := new(strings.Builder)
	b.WriteString(name)
	for _, f := range fields {
		if f.name == main {
			b.WriteString(":" + f.text())
		}
	}
	for _, f := range fields {
		if f.name != main {
			b.WriteString("," + f.name + "=" + f.text())
		}
	}
	return b.String()
}
