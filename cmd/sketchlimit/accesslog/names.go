package accesslog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var clientAddress = []string{
	"ip", "client_ip", "clientip", "remote_addr", "remote_ip", "remoteip", "clienthost", "client_addr", "client_address",
	"request.client_ip", "request.remote_ip", "httprequest.remoteip", "source_ip", "src_ip", "x_forwarded_for",
	"downstream_remote_address", "remote_address", "remote", "client",
}

// usual are what fields are called in logs of JSON and CSV, by a name that stands for all of them. The formats of servers
// have fields of these names, too.
var usual = map[string][]string{
	"time": {
		"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec", "start_time", "starttime", "startutc",
		"startlocal", "datetime", "date", "unix_seconds", "unix_time", "edgestarttimestamp",
	},
	"ip": clientAddress, "client": clientAddress, "remote_address": clientAddress, // as files of rules call it
	"user":   {"user", "user_id", "userid", "username", "remote_user", "clientusername"},
	"path":   {"path", "uri", "request_uri", "url", "request.uri", "requestpath"},
	"method": {"method", "request_method", "request.method", "requestmethod"},
	"status": {"status", "status_code", "response_code", "downstreamstatus"},
	"bytes":  {"bytes", "bytes_sent", "body_bytes_sent", "size", "response_size", "downstreamcontentsize"},
	"host":   {"host", "authority", "http_host", "request.host", "requesthost"},
}

// find returns the index of a field that is called so or is one of those that the name stands for; -1 if there is none.
func (l layout) find(name string) int {
	if i := slices.Index(l.fields, name); i >= 0 {
		return i
	}
	for _, other := range usual[name] {
		if i := slices.IndexFunc(l.fields, func(f string) bool { return strings.EqualFold(f, other) }); i >= 0 {
			return i
		}
	}
	return -1
}

// named returns the name of a field in the log; what it is for is told if there is none.
func (l layout) named(name, purpose string) (string, error) {
	i := l.find(name)
	if i >= 0 {
		return l.fields[i], nil
	}
	const most = 16 // as many as the formats of servers have
	var names strings.Builder
	for i, f := range l.fields[:min(len(l.fields), most)] {
		if i > 0 {
			names.WriteString(", ")
		}
		names.WriteString(printed(f))
	}
	if len(l.fields) > most {
		fmt.Fprintf(&names, ", … %d in all", len(l.fields))
	}
	if names.Len() == 0 {
		names.WriteString("none")
	}
	return "", fmt.Errorf("no field %q for the %s, %s has %s", name, purpose, l.format, &names)
}

// printed is a name of the log for people, cut if it is long.
func printed(name string) string {
	const most = 100
	if cut := beginning(name, most); len(cut) < len(name) {
		return seen(cut) + "…"
	}
	return seen(name)
}

// seen is a name in quotes if it has characters that could not be seen or that a terminal would obey.
func seen(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

// beginning is what of a text fits into so many bytes, in whole characters.
func beginning[T string | []byte](text T, bytes int) T {
	if len(text) <= bytes {
		return text
	}
	for n := bytes; n > bytes-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:bytes] // of no characters
}

// index returns the index of a field that is called so, and -1 for "", which a column may be called.
func (l layout) index(name string) int {
	if name == "" {
		return -1
	}
	return slices.Index(l.fields, name)
}
