package accesslog

import "bytes"

// The fields of the common and combined log formats, of Apache and nginx. The last one
// is what nginx' packages append.
var (
	commonFields = []string{
		"remote_addr", "ident", "user", "time", "request", "method", "path", "protocol", "status", "bytes",
	}
	combinedFields = append(commonFields[:len(commonFields):len(commonFields)], "referer", "user_agent", "x_forwarded_for")
)

const (
	clfHost = iota
	clfIdent
	clfUser
	clfAt
	clfRequest
	clfMethod
	clfPath
	clfProtocol
	clfStatus
	clfBytes
	clfReferer
	clfAgent
	clfForwarded
)

// clf splits lines of the common and combined formats. What stands before the client,
// such as a virtual host or what syslog adds, is passed over.
type clf struct {
	lastAddress bool // of the addresses before the time the last is the client, not the first
}

func (c clf) common(line []byte, fields [][]byte) (reason string) {
	_, reason = c.split(line, fields)
	return reason
}

func (c clf) combined(line []byte, fields [][]byte) (reason string) {
	rest, reason := c.split(line, fields)
	if reason != "" {
		return reason
	}
	var ok bool
	if fields[clfReferer], rest, ok = quoted(rest); !ok {
		return "no referrer"
	}
	if fields[clfAgent], rest, ok = quoted(rest); !ok {
		return "no user agent"
	}
	fields[clfForwarded], _, _ = quoted(rest)
	return ""
}

// split reads host, ident, user, time, request, status and bytes, and answers what is
// left.
func (c clf) split(line []byte, fields [][]byte) (rest []byte, reason string) {
	first := bytes.IndexByte(line, ' ')
	if first <= 0 {
		return nil, "no client host"
	}
	end := clfTimeIn(line)
	if end < 0 {
		return nil, "no time in brackets"
	}
	who := line[min(first+1, end):end]
	fields[clfHost] = line[:first]
	switch {
	case string(who) == "- -":
	case bytes.Count(who, []byte(" ")) >= 2 && isVirtualHost(fields[clfHost]):
		fields[clfHost], who = clientBefore(who, c.lastAddress)
	case c.lastAddress || !isAddress(fields[clfHost]):
		fields[clfHost], who = clientBefore(line[:end], c.lastAddress)
	}
	fields[clfIdent], fields[clfUser], _ = bytes.Cut(who, []byte(" ")) // a user may hold spaces
	rest = line[end+len(" ["):]
	fields[clfAt] = rest[:len(clfTime)]
	rest, ok := bytes.CutPrefix(rest[len(clfTime)+1:], []byte(` "`))
	if !ok {
		return nil, "no request"
	}
	quote, ok := requestEnd(rest)
	if !ok {
		return nil, "no status and bytes"
	}
	splitRequest(rest[:quote], fields[clfRequest:])
	rest = rest[quote+2:]
	fields[clfStatus] = rest[:3]
	size := rest[4:]
	if i := bytes.IndexByte(size, ' '); i >= 0 {
		size = size[:i]
	}
	fields[clfBytes] = size
	return rest[4+len(size):], ""
}

// clfTimeIn returns where a time in brackets begins, with the space before it; -1 if
// there is none.
func clfTimeIn(line []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(line[from:], '[')
		if i < 0 {
			return -1
		}
		from += i + 1
		at := line[from:]
		if from > 1 && line[from-2] == ' ' && len(at) > len(clfTime) && at[len(clfTime)] == ']' && at[2] == '/' && at[6] == '/' {
			return from - 2
		}
	}
}

// clientBefore finds the client before the time, and what follows it. It is the first
// address, or the last one; without one, the name that stands where the format has the
// host.
func clientBefore(b []byte, last bool) (client, rest []byte) {
	from, to, words := -1, 0, 0
	for i := 0; i < len(b); {
		end := wordEnd(b, i)
		if isAddress(addressWord(b[i:end])) && !isSyslogHost(b[end:]) && (from < 0 || last || b[to-1] == ',') {
			if from < 0 || b[to-1] != ',' { // after a comma a list goes on
				from = i
			}
			to = end
		}
		words++
		i = end + 1
	}
	if from < 0 {
		from, to = hostWord(b, words)
	}
	return bytes.Trim(b[from:to], `",`), b[min(to+1, len(b)):]
}

func wordEnd(b []byte, from int) int {
	if i := bytes.IndexByte(b[from:], ' '); i >= 0 {
		return from + i
	}
	return len(b)
}

// isVirtualHost reports whether a word is the address of a server: its port is below
// 1024, or 8080 or 8443.
func isVirtualHost(word []byte) bool {
	host, digits, ok := bytes.Cut(word, []byte(":"))
	if len(word) > 0 && word[0] == '[' {
		host, digits, ok = bytes.Cut(word, []byte("]:"))
	}
	port, number := parseDigits(digits)
	return ok && number && len(host) > 0 && (port < 1024 || port == 8080 || port == 8443) && isAddress(word)
}

// isSyslogHost reports whether the program and a colon follow a word, as in syslog.
func isSyslogHost(after []byte) bool {
	if len(after) < 3 {
		return false
	}
	next := after[1:wordEnd(after, 1)]
	return len(next) > 1 && next[len(next)-1] == ':' && !isAddress(next)
}

// addressWord is the last one of a word's list, without what lists and quotes put
// around it.
func addressWord(word []byte) []byte { return lastAddress(bytes.Trim(word, `",`)) }

// hostWord returns where the host is among so many words that are no addresses: the
// third before the time, which ident and user follow. Where a user has spaces it is the
// first word.
func hostWord(b []byte, words int) (from, to int) {
	first := wordEnd(b, 0)
	if rest := b[min(first+1, len(b)):]; words <= 3 ||
		isHostName(b[:first]) && bytes.HasPrefix(rest, []byte("- ")) && !bytes.HasPrefix(rest, []byte("- - ")) {
		return 0, first
	}
	for range words - 3 {
		from = wordEnd(b, from) + 1
	}
	return from, wordEnd(b, from)
}

// requestEnd finds the quote that ends the request, whose own quotes old servers did
// not escape: the first one that a status and a size follow.
func requestEnd(b []byte) (end int, ok bool) {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return 0, false
		}
		end = from + i
		from = end + 1
		if s := b[from:]; len(s) >= 6 && s[0] == ' ' && s[4] == ' ' && digit(s[1]) && digit(s[2]) && digit(s[3]) && s[5] != ' ' &&
			(digit(s[5]) || s[5] == '-') {
			return end, true
		}
	}
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// splitRequest splits GET /path HTTP/1.1 into the whole and its three parts. A request
// that is no such line has only the whole.
func splitRequest(request []byte, fields [][]byte) {
	fields[0], fields[1], fields[2], fields[3] = request, nil, nil, nil
	first, last := bytes.IndexByte(request, ' '), bytes.LastIndexByte(request, ' ')
	if first > 0 && last > first {
		fields[1], fields[2], fields[3] = request[:first], request[first+1:last], request[last+1:]
	}
}

// quoted reads a space and a text in quotes, in which a backslash may stand before a
// quote.
func quoted(b []byte) (value, rest []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(` "`))
	if !ok {
		return nil, b, false
	}
	for i := 0; i < len(b); i++ {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			break
		}
		i += quote
		backslashes := 0
		for backslashes < i && b[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return b[:i], b[i+1:], true
		}
	}
	return nil, b, false
}
