package accesslog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// usual are what fields are called, by a name that stands for all of them, the
// likeliest first. Case, - and _ make no difference, and what stands before the last
// dot none either where a field with the whole name is missing.
var usual = map[string][]string{
	"time": {
		"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec", "start_time", "startutc",
		"startlocal", "datetime", "date_time", "date", "unix_seconds", "unix_time", "epoch", "event_time", "request_time", "received_at",
		"edgestarttimestamp", "log_time", "__realtime_timestamp", "@t", "t", "when", "started_at", "tsiso8601",
	},
	"ip": {
		"ip", "client_ip", "remote_addr", "remote_ip", "c_ip", "client_host", "client_addr", "client_address",
		"request.client_ip", "request.remote_ip", "httprequest.remoteip", "client.ip", "client.address", "source_ip", "source.ip", "source.address",
		"src_ip", "source_ip_address", "caller_ip_address", "id.orig_h", "downstream_remote_address", "downstream_remote_address_without_port",
		"downstream_direct_remote_address", "downstream_direct_remote_address_without_port", "fwd", "x_forwarded_for", "http_x_forwarded_for", "xff", "x_real_ip",
		"http_x_real_ip", "real_ip", "true_client_ip", "cf_connecting_ip", "http_cf_connecting_ip", "proxy_protocol_addr", "original_ip",
		"remote_address", "remote_host", "remote", "client", "peer",
		"peer_ip", "peer_address", "user_ip", "visitor_ip", "src", "source", "addr", "ip_address", "ip_addr",
	},
	"user":   {"user", "user_id", "username", "remote_user", "client_user_name", "cs_username"},
	"path":   {"path", "uri", "request_uri", "url", "request.uri", "request_path", "cs_uri_stem"},
	"method": {"method", "request_method", "request.method", "cs_method"},
	"status": {"status", "status_code", "response_code", "downstream_status", "sc_status"},
	"bytes":  {"bytes", "bytes_sent", "body_bytes_sent", "size", "response_size", "downstream_content_size", "sc_bytes"},
	"host":   {"host", "authority", "http_host", "request.host", "request_host", "cs_host"},
}

// aliases are other names for the client's address: files of rules call it
// remote_address.
var aliases = map[string]string{"client": "ip", "remote_address": "ip"}

var unmarked = strings.NewReplacer("_", "", "-", "", "(", "", ")", "")

// plainName is a name without what makes no difference.
func plainName(name string) string { return unmarked.Replace(strings.ToLower(name)) }

// ranks are those of usual names, the likeliest 1.
var ranks = func() map[string]map[string]int {
	all := make(map[string]map[string]int)
	for name, fields := range usual {
		all[name] = make(map[string]int)
		for i, f := range fields {
			all[name][plainName(f)] = i + 1
		}
	}
	return all
}()

// ranked returns the fields that are called by one of the usual names, the likeliest
// first.
func (l layout) ranked(name string) (fields []int) {
	const inObject = 1000
	rank := ranks[name]
	elsewhere := func(object, field string) bool {
		return ofServer(object) || name == "ip" && contains(object, betweenWords) && !strings.Contains(field, "client")
	}
	found := make(map[int]int)
	for i, f := range l.fields {
		plain := plainName(f)
		r := rank[plain]
		if dot := strings.LastIndexByte(f, '.'); r == 0 && dot >= 0 && !elsewhere(f[:dot], plainName(f[dot+1:])) {
			if r = rank[plainName(f[dot+1:])]; r > 0 {
				r += inObject
			}
		}
		if f == timeInFront && name == "time" && l.format == JSON {
			r = inObject
		}
		if r > 0 {
			fields, found[i] = append(fields, i), r
		}
	}
	slices.SortStableFunc(fields, func(a, b int) int { return cmp.Compare(found[a], found[b]) })
	return fields
}

// headers are usual names of the client that are headers of the request: clients may
// write them.
var headers = []string{"forwardedfor", "xff", "realip", "trueclientip", "connectingip", "fwd", "originalip"}

func isHeaderName(field string) bool { return contains(plainName(field), headers) }

// zoneNames are what fields of a zone are called.
var zoneNames = map[string]bool{"tz": true, "zone": true, "timezone": true, "timeoffset": true, "tzoffset": true, "utcoffset": true, "eventtz": true}

// serverWords are in the names of fields that tell of servers, not of the request.
var serverWords = []string{"server", "upstream", "backend", "target", "dest", "dst", "local", "listen", "origin", "resp_", "host", "edge", "pod", "node"}

// betweenWords are in the names of fields of what stands between: it tells of the
// request, but its address is no client's.
var betweenWords = []string{"gateway", "service", "proxy", "router", "lb", "pop", "authority"}

func contains(name string, words []string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

func ofServer(name string) bool { return contains(name, serverWords) }

// noClients reports whether the addresses in a field are no client's.
func noClients(name string) bool {
	lower := strings.ToLower(name)
	return ofServer(name) || contains(name, betweenWords) || strings.HasPrefix(lower, "s-") || strings.HasSuffix(lower, "port")
}

// find returns the index of a field that is called so or is one of those that the name
// stands for; -1 if there is none.
func (l layout) find(name string) int {
	if i := slices.Index(l.fields, name); i >= 0 {
		return i
	}
	if a, ok := aliases[name]; ok {
		name = a
	}
	if name == "ip" && l.client != "" {
		return l.index(l.client)
	}
	if found := l.ranked(name); len(found) > 0 {
		return found[0]
	}
	return -1
}

// named returns the name of a field in the log; what it is for is told if there is none.
func (l layout) named(name, purpose string) (string, error) {
	i := l.find(name)
	if i >= 0 {
		return l.fields[i], nil
	}
	return "", fmt.Errorf("no field %q for the %s, %s has %s", name, purpose, l.format, l.names())
}

// names are those of the fields, for people.
func (l layout) names() string {
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
	return names.String()
}

// numbered reports whether a field has no name but its place in the line.
func (l layout) numbered(i int) bool { return l.format == Words && digit(l.fields[i][0]) }

// fieldText is a field for people.
func (l layout) fieldText(i int) string {
	if l.numbered(i) {
		return "word " + l.fields[i]
	}
	return printed(l.fields[i])
}

// printed is a name of the log for people, cut if it is long.
func printed(name string) string {
	const most = 100
	if cut := beginning(name, most); len(cut) < len(name) {
		return seen(cut) + "…"
	}
	return seen(name)
}

// seen is a name in quotes if it has characters that could not be seen or that a
// terminal would obey.
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

// index returns the index of a field that is called so, and -1 for "", which a column
// may be called.
func (l layout) index(name string) int {
	if name == "" {
		return -1
	}
	return slices.Index(l.fields, name)
}
