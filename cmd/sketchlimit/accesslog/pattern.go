package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pattern is a log format as servers have it in their configurations: fields with texts
// between them. It is read here, not by a library: those that there are know the
// variables of nginx or two formats of Apache, not both, match by regular expressions
// at several times the cost of a line, and stop at a quote within a request.
type pattern struct {
	texts  []string // before each field, and behind the last one
	fields []string
	spaces []int // that a field holds; below 0: any number
	padded bool  // fields may have spaces before them
}

const (
	mostFields  = 128
	mostSteps   = 512 // of looking for the end of fields in a line
	noFieldText = "has no field, such as $remote_addr or %h"
)

// patternLayout returns the layout that a pattern describes.
func patternLayout(text string) (layout, error) {
	p, clock, err := parsePattern(unquotedPattern(text))
	if err != nil {
		return layout{}, err
	}
	l := layout{format: Format(text), fields: slices.Clone(p.fields), clockLayout: clock}
	request := slices.Index(p.fields, "request")
	if request >= 0 {
		for _, part := range []string{"method", "path", "protocol"} {
			if slices.Contains(p.fields, part) { // it has a field of its own
				request = -1
			}
		}
	}
	if request >= 0 {
		l.fields = append(l.fields, "method", "path", "protocol")
	}
	l.open = func() splitter {
		m := &matcher{pattern: p}
		return func(line []byte, fields [][]byte) (reason string) {
			if reason = m.match(line, fields); reason == "" && request >= 0 {
				var parts [4][]byte
				splitRequest(fields[request], parts[:])
				copy(fields[len(p.fields):], parts[1:])
			}
			return reason
		}
	}
	return l, nil
}

func (f Format) isPattern() bool { return strings.ContainsAny(string(f), "$%") }

var (
	nginxDirective  = regexp.MustCompile(`^\s*log_format\s+\S+\s+(?:escape=\w+\s+)?`)
	apacheDirective = regexp.MustCompile(`^\s*(?:LogFormat|CustomLog\s+\S+)\s+"((?:[^"\\]|\\.)*)"`)
	quotedPiece     = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'`)
)

// unquotedPattern takes a pattern out of a line of a configuration.
func unquotedPattern(text string) string {
	if m := apacheDirective.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	if head := nginxDirective.FindString(text); head != "" {
		whole := ""
		for _, quoted := range quotedPiece.FindAllStringSubmatch(text[len(head):], -1) {
			whole += quoted[1]
		}
		text = whole
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\t`, "\t", `\n`, "", `\r`, "", `\'`, `'`).Replace(text)
}

// The fields of nginx, and of Squid, HAProxy, Envoy, gunicorn and uWSGI, and Apache, in
// the groups of expressions.
var (
	nginxField   = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)
	squidField   = regexp.MustCompile(`%ts\.%03tu|%[-"\[#'/0-9.]*(?:\{([^}]*)\})?([<>]?[a-zA-Z_]+(?:::[<>]?[a-zA-Z_]+)?)`)
	haproxyField = regexp.MustCompile(`%(?:\{[^}]*\})?(?:\[([^\]]*)\]|([A-Za-z]+))`)
	otherField   = regexp.MustCompile(`%%|%([A-Z][A-Z0-9_]+)(?:\(([^)]*)\))?(?::\d+)?%|%\((?:\{([^}]*)\}([a-z])|([\w.]+))\)s?|` +
		`%[!0-9,<>-]*(?:\{([^}]*)\})?(\^?[a-zA-Z]|\^[a-zA-Z]{2})`)
)

// apacheFraction is that of the time before it, which belongs to it.
var apacheFraction = regexp.MustCompile(`(%\{[^}]*(?:%S|%T|sec)\}t)[.,]%\{[mu]sec_frac\}t`)

// parsePattern reads a pattern. clock is the layout of its time, if only that can read
// it.
func parsePattern(text string) (p *pattern, clock string, err error) {
	p = &pattern{}
	text = apacheFraction.ReplaceAllString(text, "$1")
	field, name := otherField, otherName
	switch {
	case nginxField.MatchString(text):
		field, name = nginxField, func(m []string) (string, error) { return m[1] + m[2], nil }
	case strings.Contains(text, "%>a"):
		field, name, p.padded = squidField, squidName, true
	case strings.Contains(text, "%ci") || strings.Contains(text, "%[src]"):
		field, name = haproxyField, haproxyName
	}
	between, from := "", 0
	for _, at := range field.FindAllStringSubmatchIndex(text, -1) {
		m := make([]string, len(at)/2)
		for i := range m {
			if at[2*i] >= 0 {
				m[i] = text[at[2*i]:at[2*i+1]]
			}
		}
		between, from = between+text[from:at[0]], at[1]
		if m[0] == "%%" {
			between += "%"
			continue
		}
		n, err := name(m)
		if err != nil {
			return nil, "", err
		}
		brackets := (m[0] == "%t" || m[0] == "%(t)s") && !strings.HasSuffix(between, "[") // Apache writes them
		if len(m) > 7 && m[7] == "t" && m[6] != "" && strings.Contains(m[6], "%") {
			if clock, err = clockLayout(m[6]); err != nil {
				return nil, "", err
			}
		}
		if brackets {
			between += "["
		}
		if p.add(between, n); len(m) > 7 && m[7] == "t" && strings.Contains(m[6], "%") && len(p.texts) == len(p.fields) {
			p.spaces[len(p.spaces)-1] = strftimeSpaces(m[6])
		}
		if between = ""; brackets {
			between = "]"
		}
	}
	p.texts = append(p.texts, between+text[from:])
	switch {
	case len(p.fields) == 0:
		return nil, "", errors.New(noFieldText)
	case len(p.fields) > mostFields:
		return nil, "", fmt.Errorf("has %d fields, must be at most %d", len(p.fields), mostFields)
	}
	return p, clock, nil
}

// add adds a field. One right behind another is part of it: nobody can tell where they
// meet.
func (p *pattern) add(before, name string) {
	if before == "" && len(p.fields) > 0 {
		p.spaces[len(p.spaces)-1] = -1
		return
	}
	unique := name
	for n := 2; slices.Contains(p.fields, unique); n++ {
		unique = fmt.Sprintf("%s_%d", name, n)
	}
	spaces := -1
	switch {
	case wordNames[name]:
		spaces = 0
	case name == "time_local":
		spaces = 1
	}
	p.texts, p.fields, p.spaces = append(p.texts, before), append(p.fields, unique), append(p.spaces, spaces)
}

// wordNames are fields that hold no space.
var wordNames = map[string]bool{
	"remote_addr": true, "status": true, "bytes": true, "body_bytes_sent": true, "bytes_sent": true, "msec": true, "time_iso8601": true, "ident": true,
	"remote_port": true, "server_port": true, "request_time": true, "request_length": true, "client_ip": true, "client_port": true, "pipe": true,
	"connection": true, "connection_requests": true, "duration": true, "duration_us": true, "local_addr": true, "port": true, "response_code": true,
	"bytes_received": true, "peer_addr": true, "binary_remote_addr": true, "realip_remote_addr": true,
}

// apacheNames are what the letters of Apache's mod_log_config stand for, and of those
// who took them over.
var apacheNames = map[string]string{
	"h": "remote_addr", "a": "remote_addr", "A": "local_addr", "l": "ident", "u": "user", "t": "time", "r": "request", "s": "status", "b": "bytes",
	"B": "bytes", "O": "bytes_sent", "I": "bytes_received", "S": "bytes_transferred", "v": "host", "V": "host", "p": "port", "D": "duration_us",
	"T": "duration", "m": "method", "U": "path", "q": "query", "H": "protocol", "L": "log_id", "P": "pid", "k": "keepalive_requests",
	"f": "filename", "R": "handler", "X": "connection",
}

// otherName is the name of a field of Envoy, gunicorn, uWSGI or Apache.
func otherName(m []string) (string, error) {
	envoy, argument, header, of, plain, braces, letter := m[1], m[2], m[3], m[4], m[5], m[6], m[7]
	switch {
	case envoy != "":
		return envoyName(envoy, argument), nil
	case of != "":
		return headerName(header), nil
	case plain != "":
		if name, ok := apacheNames[plain]; ok {
			return name, nil
		}
		if plain == "ltime" || plain == "ctime" {
			return "time", nil
		}
		return plain, nil
	case braces != "":
		return bracesName(braces, letter)
	}
	if name, ok := apacheNames[letter]; ok {
		return name, nil
	}
	return strings.Trim(letter, "^"), nil
}

// bracesName is the name of %{…}x.
func bracesName(braces, letter string) (string, error) {
	switch letter {
	case "t":
		if strings.HasSuffix(braces, "_frac") {
			return "fraction", nil
		}
		return "time", nil
	case "a":
		if braces == "c" {
			return "peer_addr", nil
		}
		return "remote_addr", nil
	case "h":
		return "remote_addr", nil
	case "p":
		return "port", nil
	case "T":
		return "duration", nil
	case "r":
		return "request", nil
	case "s":
		return "status", nil
	}
	return headerName(braces), nil
}

func headerName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "_", ":", "").Replace(name))
}

func envoyName(name, argument string) string {
	switch name {
	case "START_TIME":
		return "time"
	case "REQ":
		first, other, _ := strings.Cut(argument, "?")
		if strings.HasPrefix(other, ":") {
			first = other
		}
		return headerName(first)
	}
	return strings.ToLower(strings.TrimSuffix(name+"_"+headerName(argument), "_"))
}

func squidName(m []string) (string, error) {
	switch braces, code := m[1], m[2]; code {
	case "": // %ts.%03tu
		return "time", nil
	case ">a":
		return "client_ip", nil
	case "tl", "tg", "ts":
		return "time", nil
	case ">Hs", "<Hs", "Hs":
		return "status", nil
	case "rm":
		return "method", nil
	case "ru":
		return "uri", nil
	case "un", "ui", "ul", "us":
		return "user", nil
	case "<st":
		return "bytes", nil
	default:
		return headerName(strings.Trim(code+"_"+braces, "_<>")), nil
	}
}

func haproxyName(m []string) (string, error) {
	if m[1] != "" {
		return headerName(strings.TrimRight(strings.ReplaceAll(m[1], "(", "_"), ")")), nil
	}
	switch code := m[2]; code {
	case "ci":
		return "client_ip", nil
	case "cp":
		return "client_port", nil
	case "t", "tr", "T", "trl", "trg", "tl", "Ts":
		return "time", nil
	case "ST":
		return "status", nil
	case "B":
		return "bytes", nil
	case "r":
		return "request", nil
	default:
		return code, nil
	}
}

// strftime are directives of C as layouts of package time.
var strftime = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'b': "Jan", 'h': "Jan", 'B': "January", 'y': "06",
	'a': "Mon", 'A': "Monday", 'p': "PM", 'z': "-0700", 'Z': "MST", 'T': "15:04:05", 'D': "01/02/06", 'F': "2006-01-02", 'R': "15:04", 'n': "\n",
	't': "\t", '%': "%", 'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM", 'j': "002",
}

// clockLayout returns the layout of a time as strftime has it; "" if parseTime reads it
// anyway, or if it is a part of a time.
func clockLayout(format string) (string, error) {
	var b strings.Builder
	format = strings.TrimPrefix(strings.TrimPrefix(format, "begin:"), "end:")
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i == len(format)-1 {
			b.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == 's' {
			return "", nil // Unix seconds
		}
		part, ok := strftime[format[i]]
		if !ok {
			return "", fmt.Errorf("has a time with %%%c, which is not read", format[i])
		}
		b.WriteString(part)
	}
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	written := at.Format(b.String())
	if ns, ok := parseTime([]byte(written)); ok && ns == at.UnixNano() {
		return "", nil
	}
	if t, err := time.Parse(b.String(), written); err == nil && t.Equal(at) {
		return b.String(), nil
	}
	return "", nil
}

// strftimeSpaces returns how many spaces a time holds; below 0 if that changes.
func strftimeSpaces(format string) int {
	for _, padded := range []string{"%e", "%c"} {
		if strings.Contains(format, padded) {
			return -1
		}
	}
	return strings.Count(format, " ") + strings.Count(format, "%r")
}

// matcher matches lines, for one goroutine.
type matcher struct {
	*pattern
	steps   int
	reached int // the field that the pattern fits up to
}

// match finds the fields of a line.
func (m *matcher) match(line []byte, fields [][]byte) (reason string) {
	clear(fields)
	m.steps, m.reached = 0, 0
	if rest, ok := bytes.CutPrefix(line, []byte(m.texts[0])); ok && m.field(0, rest, fields) {
		return ""
	}
	return "the pattern does not fit at " + printed(m.fields[m.reached])
}

// field finds the i-th field at the beginning of b, and all that follow. It takes the
// first end from which on the rest fits: a request may hold quotes that the server did
// not escape.
func (m *matcher) field(i int, b []byte, fields [][]byte) bool {
	m.reached = max(m.reached, i)
	if m.padded {
		b = bytes.TrimLeft(b, " ")
	}
	after := []byte(m.texts[i+1])
	last := i == len(m.fields)-1
	if len(after) == 0 { // the last one
		fields[i] = b
		if end := bytes.IndexByte(b, ' '); end >= 0 && m.spaces[i] == 0 { // servers append to lines
			fields[i] = b[:end]
		}
		return true
	}
	for from := 0; m.steps < mostSteps; m.steps++ {
		n := bytes.Index(b[from:], after)
		if n < 0 {
			return false
		}
		end := from + n
		if most := m.spaces[i]; most >= 0 {
			switch n := bytes.Count(b[:end], []byte(" ")); {
			case n > most:
				return false
			case n < most:
				from = end + 1
				continue
			}
		}
		from = end + 1
		if after[0] == '"' && escaped(b[:end]) || after[0] == ' ' && end > 0 && b[end-1] == ',' { // a list goes on
			continue
		}
		fields[i] = b[:end]
		if last || m.field(i+1, b[end+len(after):], fields) {
			return true
		}
	}
	return false
}

// escaped reports whether a backslash stands before what follows b.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
