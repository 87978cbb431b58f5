package accesslog

import "bytes"

// envoyFields are those of Envoy's default format string. It has no address of the
// connection: the client is in x_forwarded_for, where Envoy appends that address if it
// is set up to (use_remote_address).
var envoyFields = []string{
	"time", "request", "method", "path", "protocol", "status", "flags", "bytes_received", "bytes_sent", "duration",
	"upstream_service_time", "x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host",
}

const (
	envoyTime    = 0
	envoyRequest = 1
	envoyStatus  = 5  // the first of six without quotes
	envoyQuoted  = 11 // the first of five in quotes
)

func splitEnvoy(line []byte, fields [][]byte) (reason string) {
	line, ok := bytes.CutPrefix(line, []byte("["))
	if !ok {
		return "no time in brackets"
	}
	var rest []byte
	if fields[envoyTime], rest, ok = bytes.Cut(line, []byte("]")); !ok {
		return "no time in brackets"
	}
	request, rest, ok := quoted(rest)
	if !ok {
		return "no request"
	}
	splitRequest(request, fields[envoyRequest:])
	for i := envoyStatus; i < envoyQuoted; i++ {
		if len(rest) == 0 || rest[0] != ' ' {
			return "no " + envoyFields[i]
		}
		end := bytes.IndexByte(rest[1:], ' ')
		if end < 0 {
			return "no x_forwarded_for"
		}
		fields[i], rest = rest[1:1+end], rest[1+end:]
	}
	for i := envoyQuoted; i < len(envoyFields); i++ {
		if fields[i], rest, ok = quoted(rest); !ok {
			return "no " + envoyFields[i]
		}
	}
	return ""
}
