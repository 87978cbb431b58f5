package accesslog

import "bytes"

// The fields of the common and combined log formats, of Apache and nginx. The last one is what nginx' packages append.
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

func splitCommon(line []byte, fields [][]byte) (reason string) {
	_, reason = splitLog(line, fields)
	return reason
}

func splitCombined(line []byte, fields [][]byte) (reason string) {
	rest, reason := splitLog(line, fields)
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

// splitLog reads host, ident, user, time, request, status and bytes, and answers what is left.
func splitLog(line []byte, fields [][]byte) (rest []byte, reason string) {
	host, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(host) == 0 {
		return nil, "no client host"
	}
	who, rest, ok := bytes.Cut(rest, []byte(" ["))
	if !ok || len(rest) < len(clfTime)+1 || rest[len(clfTime)] != ']' {
		return nil, "no time in brackets"
	}
	fields[clfHost] = host
	fields[clfIdent], fields[clfUser], _ = bytes.Cut(who, []byte(" ")) // a user may hold spaces
	fields[clfAt] = rest[:len(clfTime)]
	rest, ok = bytes.CutPrefix(rest[len(clfTime)+1:], []byte(` "`))
	if !ok {
		return nil, "no request"
	}
	end, ok := requestEnd(rest)
	if !ok {
		return nil, "no status and bytes"
	}
	splitRequest(rest[:end], fields[clfRequest:])
	rest = rest[end+2:]
	fields[clfStatus] = rest[:3]
	size := rest[4:]
	if i := bytes.IndexByte(size, ' '); i >= 0 {
		size = size[:i]
	}
	fields[clfBytes] = size
	return rest[4+len(size):], ""
}

// requestEnd finds the quote that ends the request, whose own quotes old servers did not escape: the first one that a
// status and a size follow.
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

// splitRequest splits GET /path HTTP/1.1 into the whole and its three parts. A request that is no such line has only the
// whole.
func splitRequest(request []byte, fields [][]byte) {
	fields[0], fields[1], fields[2], fields[3] = request, nil, nil, nil
	first, last := bytes.IndexByte(request, ' '), bytes.LastIndexByte(request, ' ')
	if first > 0 && last > first {
		fields[1], fields[2], fields[3] = request[:first], request[first+1:last], request[last+1:]
	}
}

// quoted reads a space and a text in quotes, in which a backslash may stand before a quote.
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
