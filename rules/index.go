package rules

// index finds what has a name. The first few are compared one by one, which takes a
// third of what a map takes; most levels of most files have no more.
type index[T any] struct {
	first []entry[T]
	more  map[string]T
}

type entry[T any] struct {
	name string
	of   T
}

// few is where a map begins to be the faster one.
const few = 8

// find returns what has a name, or the zero T.
func (x *index[T]) find(name string) (none T) {
	for i := range x.first {
		if x.first[i].name == name {
			return x.first[i].of
		}
	}
	if x.more != nil {
		return x.more[name]
	}
	return none
}

// add adds what has a name that nothing else has.
func (x *index[T]) add(name string, of T) {
	switch {
	case len(x.first) < few:
		x.first = append(x.first, entry[T]{name, of})
	case x.more == nil:
		x.more = map[string]T{name: of}
	default:
		x.more[name] = of
	}
}
