package accesslog

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonLine finds fields of a JSON object. A field of an object in it is named with a
// dot: request.remote_ip. Of an array it is one value, as headers are arrays that have
// one value as a rule.
type jsonLine struct {
	names   []string
	last    []bool // by name: of an array the last value is taken, not the first
	decoder *jsontext.Decoder
	options []jsontext.Options
	in      bytes.Buffer
	line    []byte
	fields  [][]byte
	prefix  bool   // something stands before the object
	path    []byte // of the value at hand
	plain   []byte // texts without their escapes
}

func splitJSON(names []string, prefix bool) splitter {
	j := &jsonLine{
		names: names, decoder: new(jsontext.Decoder), prefix: prefix,
		options: []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)},
	}
	for _, name := range names {
		j.last = append(j.last, forwarded(name))
	}
	return j.split
}

// forwarded reports whether a field is like X-Forwarded-For: each proxy appends to it, so
// a client can forge all but its end.
func forwarded(name string) bool {
	return strings.HasSuffix(strings.ToLower(strings.ReplaceAll(name, "-", "_")), "forwarded_for")
}

const noObject = "no JSON object"

// split leaves fields that the line does not have, or that are null, at nil.
func (j *jsonLine) split(line []byte, fields [][]byte) (reason string) {
	clear(fields)
	switch {
	case j.prefix:
		if i := slices.Index(j.names, timeInFront); i >= 0 {
			fields[i] = frontTime(line)
		}
		line = fromObject(line)
	case len(line) > 0 && (line[0] != '{' || line[len(line)-1] != '}'): // in an array
		line = elementOf(line)
	}
	j.line, j.fields, j.plain = line, fields, j.plain[:0]
	j.in = *bytes.NewBuffer(line)
	j.decoder.Reset(&j.in, j.options...)
	if j.decoder.PeekKind() != '{' || j.object(0) != nil {
		return noObject
	}
	if _, err := j.decoder.ReadToken(); err != io.EOF {
		return noObject
	}
	return ""
}

// object reads an object whose fields' names begin with so much of the path.
func (j *jsonLine) object(prefix int) error {
	if _, err := j.decoder.ReadToken(); err != nil {
		return err
	}
	for {
		switch j.decoder.PeekKind() {
		case '}':
			_, err := j.decoder.ReadToken()
			return err
		case 0:
			_, err := j.decoder.ReadToken()
			return err
		}
		name, err := j.value()
		if err != nil {
			return err
		}
		j.path = append(j.path[:prefix], name...)
		if err := j.field(); err != nil {
			return err
		}
	}
}

// field reads the value at the path.
func (j *jsonLine) field() (err error) {
	for i, name := range j.names {
		if name == string(j.path) {
			if j.decoder.PeekKind() == '[' {
				j.fields[i], err = j.element(j.last[i])
			} else {
				j.fields[i], err = j.value()
			}
			return err
		}
	}
	if j.decoder.PeekKind() == '{' && j.leadsTo() {
		j.path = append(j.path, '.')
		return j.object(len(j.path))
	}
	return j.decoder.SkipValue()
}

// leadsTo reports whether one of the names continues the path.
func (j *jsonLine) leadsTo() bool {
	for _, name := range j.names {
		if len(name) > len(j.path) && name[len(j.path)] == '.' && name[:len(j.path)] == string(j.path) {
			return true
		}
	}
	return false
}

// element reads the first or the last value of an array.
func (j *jsonLine) element(last bool) (value []byte, err error) {
	_, err = j.decoder.ReadToken()
	for first := true; err == nil; first = false {
		switch {
		case j.decoder.PeekKind() == ']':
			_, err = j.decoder.ReadToken()
			return value, err
		case first || last:
			value, err = j.value()
		default:
			err = j.decoder.SkipValue()
		}
	}
	return nil, err
}

// value reads a value as text: of a string what it says, of others what is written.
func (j *jsonLine) value() ([]byte, error) {
	v, err := j.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := j.decoder.InputOffset()
	raw := j.line[int(end)-len(v) : end] // v is valid until the next one only
	switch {
	case raw[0] == 'n':
		return nil, nil
	case raw[0] != '"':
		return raw, nil
	case bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1], nil
	}
	from := len(j.plain)
	j.plain, _ = jsontext.AppendUnquote(j.plain, raw) // it has been read: the only error left is of UTF-8, which is replaced
	return j.plain[from:len(j.plain):len(j.plain)], nil
}

// longestName is that of the names that fields may have. Fields of objects have the
// names of those in front of their own, so that a line would have many times its own
// length of names otherwise.
const longestName = 256

// fromObject is a line without what stands before the object in it, as syslog and
// containers write it.
func fromObject(line []byte) []byte { return line[max(0, bytes.IndexByte(line, '{')):] }

// timeInFront is the field of a time that stands before an object.
const timeInFront = "time in front"

// frontTime is the time that a line begins with, in one word or two; nil if there is
// none.
func frontTime(line []byte) []byte {
	front := line[:max(0, bytes.IndexByte(line, '{'))]
	first := bytes.IndexAny(front, " \t")
	if first < 0 {
		return nil
	}
	second := bytes.IndexAny(front[first+1:], " \t")
	if second >= 0 {
		if isHalf(front[first+1:][:second]) {
			return nil
		}
		if both := bytes.Trim(front[:first+1+second], "[]"); isTime(both) {
			return both
		}
	}
	if one := bytes.Trim(front[:first], "[]"); isTime(one) {
		return one
	}
	return nil
}

// jsonSurvey returns the names of all fields in some lines, in order, and what they hold.
func jsonSurvey(lines [][]byte, prefix bool) (names []string, s survey) {
	stats := make(map[string]*stat)
	var add func(prefix string, v any)
	add = func(prefix string, v any) {
		if object, ok := v.(map[string]any); ok {
			for name, v := range object {
				if len(prefix)+len(name) <= longestName {
					add(prefix+name+".", v)
				}
			}
			return
		}
		name := strings.TrimSuffix(prefix, ".")
		if stats[name] == nil {
			stats[name] = &stat{}
			names = append(names, name)
		}
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
			if forwarded(name) {
				v = list[len(list)-1]
			}
		}
		switch v := v.(type) {
		case string:
			stats[name].observe([]byte(v))
		case json.Number:
			stats[name].observe([]byte(v))
		}
	}
	for _, line := range lines {
		if prefix {
			if at := frontTime(line); at != nil {
				add(timeInFront+".", string(at))
			}
		}
		if line = elementOf(line); prefix {
			line = fromObject(line)
		}
		var v map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if d.Decode(&v) == nil {
			s.lines++
			add("", v)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s.stats = append(s.stats, *stats[name])
	}
	return names, s
}

// jsonLayout is the layout of lines that are objects, or that end in one.
func jsonLayout(lines [][]byte) layout {
	prefix := !slices.ContainsFunc(lines, func(line []byte) bool { return bytes.HasPrefix(elementOf(line), []byte("{")) })
	names, s := jsonSurvey(lines, prefix)
	if len(names) == 0 || prefix && 2*s.lines < len(lines) { // a brace in a line of words
		s.lines = 0
	}
	l := layout{format: JSON, fields: names, copied: true}
	l.narrowed = func(names []string) func() splitter {
		return func() splitter { return splitJSON(names, prefix) }
	}
	l.open = l.narrowed(names)
	l.surveyed = func([][]byte) survey { return s }
	return l
}

// wrappers are the fields in which containers and collectors put the line that a server
// wrote.
var wrappers = []string{"log", "MESSAGE", "message", "msg", "textPayload", "@message", "line", "_raw", "event.original", "event", "body"}

// unwrapped returns the layout of the lines in a field of objects, if they are a log.
func (l layout) unwrapped(lines [][]byte, o Options) (inner layout, ok bool) {
	for _, field := range wrappers {
		if l.index(field) < 0 {
			continue
		}
		var within [][]byte
		split, one := l.narrowed([]string{field})(), make([][]byte, 1)
		for _, line := range lines {
			if split(line, one) == "" && len(bytes.TrimSpace(one[0])) > 0 {
				within = append(within, bytes.Clone(trimmed(one[0])))
			}
		}
		if len(within) == 0 {
			continue
		}
		if inner, ok = detect(within, o); !ok || inner.header || inner.choose(within).client == "" && o.Key == "" {
			continue
		}
		return inner.within(field, l, within), true
	}
	return layout{}, false
}

// within is a layout for lines that are in a field of objects.
func (l layout) within(field string, outer layout, lines [][]byte) layout {
	l.wrapper, l.copied = field, true
	s := l.survey(lines)
	l.surveyed = func([][]byte) survey { return s }
	wrap := func(open func() splitter) func() splitter {
		return func() splitter {
			object, one, split := outer.narrowed([]string{field})(), make([][]byte, 1), open()
			return func(line []byte, fields [][]byte) (reason string) {
				if reason := object(line, one); reason != "" {
					return reason
				}
				if len(one[0]) == 0 {
					return "no " + printed(field)
				}
				return split(trimmed(one[0]), fields)
			}
		}
	}
	if narrowed := l.narrowed; narrowed != nil {
		l.narrowed = func(names []string) func() splitter { return wrap(narrowed(names)) }
	}
	l.open = wrap(l.open)
	return l
}
