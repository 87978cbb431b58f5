package accesslog

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Logs of servers, gateways and clouds as their documentation has them: 300 lines, one
// each second, of 107 addresses.
const (
	madeLines = 300
	madeKeys  = 107
)

var madeStart = time.Date(2026, 11, 10, 7, 0, 0, 0, time.UTC)

// made writes a log, a line of which is made of its number, its time and its client.
func made(head string, line func(i int, at time.Time, ip string) string) string {
	b := strings.Builder{}
	b.WriteString(head)
	for i := range madeLines {
		b.WriteString(line(i, madeStart.Add(time.Duration(i)*time.Second), fmt.Sprintf("203.0.113.%d", i%madeKeys+1)) + "\n")
	}
	return b.String()
}

// afterClient is what follows the client in the common and the combined format.
func afterClient(at time.Time) string {
	return fmt.Sprintf(`- - [%s] "GET /a HTTP/1.1" 200 512`, at.Format(clfTime))
}

const agents = ` "-" "Mozilla/5.0 (X11; Linux x86_64)"`

type madeLog struct {
	name, text string
	options    Options
	key        string // of the field that is chosen
}

// ofLine is a log each line of which is made alike: {T:layout} stands for the time, {U}
// for Unix seconds, {IP} for the client.
func ofLine(name, pattern, key string, o Options) madeLog {
	return madeLog{name, made("", func(i int, at time.Time, ip string) string { return fill(pattern, i, at, ip) }), o, key}
}

func fill(pattern string, i int, at time.Time, ip string) string {
	s := strings.NewReplacer("{IP}", ip, "{U}", fmt.Sprint(at.Unix()), "{MS}", fmt.Sprint(at.UnixMilli()), "{US}", fmt.Sprint(at.UnixMicro()),
		"{NS}", fmt.Sprint(at.UnixNano()), "{CLF}", at.Format(clfTime), "{RFC}", at.Format(time.RFC3339), "{I}", fmt.Sprint(i), "{FEW}", fmt.Sprint(i%20), "{FEW3}", fmt.Sprint(i%3), "{K}", fmt.Sprint(i%madeKeys), "{FEW2}", fmt.Sprintf("%02d", i%60),
		"{FEW60}", fmt.Sprint(i%60), "{PORT}", fmt.Sprint(40000+i),
		"{REST}", afterClient(at), "{AGENTS}", agents).Replace(pattern)
	for {
		before, rest, ok := strings.Cut(s, "{T:")
		if !ok {
			return s
		}
		layout, after, _ := strings.Cut(rest, "}")
		s = before + at.Format(layout) + after
	}
}

func madeLogs() []madeLog {
	none := Options{}
	logs := []madeLog{
		ofLine("nginx combined", `{IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("nginx main behind a proxy", `10.0.0.5 {REST}{AGENTS} "{IP}"`, "x_forwarded_for", none),
		ofLine("Apache common", `{IP} {REST}`, "remote_addr", none),
		ofLine("Apache with a port", `{IP}:{PORT} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("other_vhosts_access.log", `www.example.com:443 {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("a virtual host that is an address", `10.0.0.5:443 {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("virtual hosts that are public addresses", `192.0.2.{FEW}:443 {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("grep -n", `{I}:{IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("grep -H", `/var/log/access.log:{IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("grep -Hn, IPv6", `access.log.{FEW}:{I}:2001:db8:0:{K}::1 {REST}{AGENTS}`, "remote_addr", none),
		ofLine("grep -H, IPv6", `access.log:2001:db8:0:{K}::1 {REST}`, "remote_addr", none),
		ofLine("grep -H of JSON", `a.json:{"ts":"{RFC}","ip":"{IP}"}`, "ip", none),
		ofLine("grep -Hn of words", `app.log:{I}:{RFC} GET /a {IP} 200`, "4", none),
		ofLine("grep -H of words in two", `app.log:{T:2006-01-02 15:04:05} GET /a {IP} 200`, "5", none),
		ofLine("syslog of many addresses", `Nov 10 08:00:00 10.0.0.{FEW} nginx: {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("syslog RFC 3164", `Nov 10 08:00:00 web01 nginx: {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("syslog of an address", `<134>Nov 10 08:00:00 10.0.0.5 nginx[77]: {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("syslog RFC 5424", `<134>1 {RFC} web01 nginx 77 - [meta sequenceId="1"] {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("X-Forwarded-For in front", `198.51.100.9, {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("Tomcat", `{IP} {REST} 12`, "remote_addr", none),
		ofLine("lighttpd", `{IP} www.example.com - [{CLF}] "GET /a HTTP/1.1" 200 512 "-" "curl/8.9"`, "remote_addr", none),
		ofLine("varnishncsa", `{IP} - - [{CLF}] "GET http://www.example.com/a HTTP/1.1" 200 512 "-" "curl/8.9"`, "remote_addr", none),
		ofLine("Traefik common", `{IP} {REST} "-" "-" {I} "web@docker" "http://172.18.0.3:80" 2ms`, "remote_addr", none),
		ofLine("Kubernetes CRI", `{T:2006-01-02T15:04:05.000000000Z07:00} stdout F {IP} {REST}{AGENTS}`, "remote_addr", none),
		ofLine("Envoy", `[{T:2006-01-02T15:04:05.000Z}] "GET /a HTTP/2" 200 - 0 512 12 11 "{IP}" "curl/8.9" "0f0e" "api.example" "10.0.0.5:8080"`, "x_forwarded_for", none),
		ofLine("HAProxy HTTP", `Nov 10 08:00:00 localhost haproxy[14389]: {IP}:{PORT} [{T:02/Jan/2006:15:04:05.000}] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`, "6", none),
		ofLine("AWS ALB", `http {T:2006-01-02T15:04:05.000000Z} app/my-loadbalancer/50dc6c495c0c9188 {IP}:{PORT} 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:targetgroup/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 {T:2006-01-02T15:04:05.000000Z} "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`, "4", none),
		ofLine("AWS classic ELB", `{T:2006-01-02T15:04:05.000000Z} my-loadbalancer {IP}:{PORT} 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -`, "3", none),
		ofLine("AWS S3", `79a59df900b949e5 DOC-EXAMPLE-BUCKET [{CLF}] {IP} 79a59df900b949e5 3E57427F3EXAMPLE REST.GET.VERSIONING - "GET /a?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" - s9lzHYrFp76ZVxRcpX9 SigV4`, "4", none),
		ofLine("Squid", `{U}.779    180 {IP} TCP_MISS/200 411 GET http://www.example.com/ - DIRECT/10.0.0.9 text/html`, "3", none),
		ofLine("Heroku", `{T:2006-01-02T15:04:05.000000-07:00} heroku[router]: at=info method=GET path="/" host=app.example.com request_id=8601b555 fwd="{IP}" dyno=web.1 connect=0ms service=17ms status=200 bytes=1548 protocol=https`, "fwd", none),
		ofLine("logfmt", `time="{RFC}" level=info msg="GET /a" remote={IP}:{PORT} status=200`, "remote", none),
		ofLine("Fastly", `<134>{T:2006-01-02T15:04:05Z} cache-fra19120 access[55]: {IP} "-" "-" {T:Mon, 02 Jan 2006 15:04:05} GMT GET /a 200`, "4", none),
		ofLine("between bars", `{T:2006-01-02 15:04:05.000}|{IP}|GET|/a|200`, "2", none),
		ofLine("CSV without a header", `"{T:2006-01-02 15:04:05}","{IP}","GET /a, b",200`, "2", none),

		ofLine("Caddy", `{"level":"info","ts":{U}.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"{IP}","remote_port":"1234","client_ip":"{IP}","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a","headers":{"User-Agent":["curl/8"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.0012,"size":10,"status":200}`, "request.client_ip", none),
		ofLine("Traefik JSON", `{"ClientAddr":"{IP}:{PORT}","ClientHost":"{IP}","ClientPort":"{PORT}","DownstreamStatus":200,"Duration":1{I}000,"StartLocal":"{T:2006-01-02T15:04:05.000000000Z}","StartUTC":"{T:2006-01-02T15:04:05.000000000Z}","level":"info","msg":"","time":"{RFC}","ServiceAddr":"172.18.0.3:80"}`, "ClientHost", none),
		ofLine("Envoy JSON", `{"start_time":"{T:2006-01-02T15:04:05.000Z}","method":"GET","path":"/a","response_code":200,"duration":12,"x_forwarded_for":null,"downstream_remote_address":"{IP}:{PORT}","downstream_local_address":"10.0.0.5:443","upstream_host":"10.0.0.9:80"}`, "downstream_remote_address", none),
		ofLine("nginx JSON with a duration called time", `{"time":0.0{I},"@timestamp":"{RFC}","remote_addr":"{IP}","status":200}`, "remote_addr", none),
		ofLine("Kong", `{"started_at":{MS},"client_ip":"{IP}","request":{"method":"GET","uri":"/a","size":99},"response":{"status":200},"latencies":{"request":12},"upstream_uri":"/a","service":{"host":"10.0.0.9","created_at":1750000000}}`, "client_ip", none),
		ofLine("Cloudflare Logpush", `{"ClientIP":"{IP}","ClientRequestHost":"example.com","ClientRequestMethod":"GET","EdgeEndTimestamp":"{RFC}","EdgeResponseStatus":200,"EdgeServerIP":"10.1.1.1","EdgeStartTimestamp":"{RFC}","OriginIP":"10.0.0.7","RayID":"1"}`, "ClientIP", none),
		ofLine("Cloudflare Logpush in ns", `{"ClientIP":"{IP}","EdgeStartTimestamp":{NS},"RayID":"1"}`, "ClientIP", none),
		ofLine("GCP load balancer", `{"httpRequest":{"latency":"0.012s","remoteIp":"{IP}","requestMethod":"GET","requestUrl":"http://x/","serverIp":"10.0.0.3","status":200},"insertId":"1","jsonPayload":{"statusDetails":"response_sent_by_backend"},"receiveTimestamp":"{T:2006-01-02T15:04:05.999Z}","severity":"INFO","timestamp":"{T:2006-01-02T15:04:05.000000Z}"}`, "httpRequest.remoteIp", none),
		ofLine("Azure Front Door", `{"time":"{T:2006-01-02T15:04:05.0000000Z}","resourceId":"/SUBSCRIPTIONS/1","category":"FrontDoorAccessLog","operationName":"x","properties":{"trackingReference":"1","httpMethod":"GET","requestUri":"https://x:443/","clientIp":"{IP}","clientPort":"1234","socketIp":"10.0.0.1","timeTaken":"0.012","httpStatusCode":"200"}}`, "properties.clientIp", none),
		ofLine("Azure Application Gateway", `{"timeStamp":"{T:2006-01-02T15:04:05+00:00}","properties":{"instanceId":"appgw_2","clientIP":"{IP}","clientPort":46886,"httpMethod":"GET","serverRouted":"10.0.0.4:80"}}`, "properties.clientIP", none),
		ofLine("Vercel", `{"id":"1","timestamp":{MS},"source":"lambda","host":"x.vercel.app","proxy":{"timestamp":{MS},"method":"GET","host":"x.vercel.app","path":"/a","clientIp":"{IP}","region":"fra1","statusCode":200}}`, "proxy.clientIp", none),
		ofLine("journald", `{"__REALTIME_TIMESTAMP":"{US}","_HOSTNAME":"web01","SYSLOG_IDENTIFIER":"nginx","MESSAGE":"{IP} - - [{CLF}] \"GET /a HTTP/1.1\" 200 512 \"-\" \"curl/8\""}`, "remote_addr", none),
		ofLine("Docker json-file", `{"log":"{IP} - - [{CLF}] \"GET /a HTTP/1.1\" 200 512 \"-\" \"curl/8\" \"-\"\n","stream":"stdout","time":"{T:2006-01-02T15:04:05.000000000Z}"}`, "remote_addr", none),
		ofLine("Docker json-file of JSON", `{"log":"{\"ts\":{U},\"client_ip\":\"{IP}\",\"status\":200}\n","stream":"stdout","time":"{T:2006-01-02T15:04:05.000000000Z}"}`, "client_ip", none),
		ofLine("Caddy's console", "{T:2006/01/02 15:04:05.000}\tINFO\thttp.log.access\thandled request\t"+`{"request":{"client_ip":"{IP}"},"resp_headers":{"Date":["Mon, 09 Nov 2026 00:00:{FEW2} GMT"]}}`,
			"request.client_ip", none),
		ofLine("ALB, IPv6 with a port", `https {T:2006-01-02T15:04:05.000000Z} app/lb/1 2001:db8:0:{K}::1:{PORT} 10.0.0.1:80 0.1`, "4", none),
		ofLine("CRI of JSON", `{T:2006-01-02T15:04:05.000000000Z07:00} stdout F {"timestamp":"{RFC}","clientip":"{IP}","status":200}`, "clientip", none),
		ofLine("Elastic Common Schema", `{"@timestamp":"{RFC}","source":{"ip":"{IP}","port":1},"destination":{"ip":"10.0.0.1"},"host":{"ip":["10.0.0.2"],"name":"web01"},"http":{"response":{"status_code":200}}}`, "source.ip", none),
		ofLine("JSON, RFC 1123", `{"date":"{T:Mon, 02 Jan 2006 15:04:05} GMT","ip":"{IP}"}`, "ip", none),
		ofLine("JSON, a zone +00", `{"ts":"{T:2006-01-02 15:04:05.123456}+00","ip":"{IP}"}`, "ip", none),
		ofLine("JSON, UTC", `{"ts":"{T:2006-01-02 15:04:05.123} UTC","ip":"{IP}"}`, "ip", none),
		ofLine("JSON, of Go", `{"ts":"{T:2006-01-02 15:04:05.123} +0000 UTC","ip":"{IP}"}`, "ip", none),
		ofLine("tsv of addresses", "{U}\t{IP}", "key", none),

		{"IIS", made("#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-11-10 07:00:00\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status time-taken\n",
			func(i int, at time.Time, ip string) string {
				return fill("{T:2006-01-02 15:04:05} 10.0.0.5 GET /a - 443 - {IP} Mozilla/5.0+(X11) - 200 15", i, at, ip)
			}), none, "c-ip"},
		{"IIS whose fields change", made("", func(i int, at time.Time, ip string) string {
			switch {
			case i == 0:
				return fill("#Fields: date time s-ip c-ip\n{T:2006-01-02 15:04:05} 10.0.0.5 {IP}", i, at, ip)
			case i == 150:
				return fill("#Fields: c-ip date time s-ip sc-status\n{IP} {T:2006-01-02 15:04:05} 10.0.0.5 200", i, at, ip)
			case i > 150:
				return fill("{IP} {T:2006-01-02 15:04:05} 10.0.0.5 200", i, at, ip)
			}
			return fill("{T:2006-01-02 15:04:05} 10.0.0.5 {IP}", i, at, ip)
		}), none, "c-ip"},
		{"IIS without its header", made("", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02 15:04:05} 10.0.0.5 GET /a - 443 - {IP} Mozilla/5.0+(X11) - 200 15", i, at, ip)
		}), none, "9"},
		{"CloudFront", made("#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status\n", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02\t15:04:05}\tFRA2\t512\t{IP}\tGET\td1.cloudfront.net\t/a\t200", i, at, ip)
		}), none, "c-ip"},
		{"IIS and a list", made("#Fields: date time s-ip c-ip X-Forwarded-For\n", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02 15:04:05} 10.0.0.5 10.0.0.9 198.51.100.7,+{IP}", i, at, ip)
		}), none, "X-Forwarded-For"},
		{"CloudFront and a list", made("#Fields: date time c-ip x-forwarded-for\n", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02\t15:04:05}\t10.0.0.9\t198.51.100.7,%20{IP}", i, at, ip)
		}), none, "x-forwarded-for"},
		{"Zeek", made("#separator \\x09\n#path\thttp\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tmethod\n#types\ttime\tstring\taddr\tport\taddr\tstring\n", func(i int, at time.Time, ip string) string {
			return fill("{U}.123456\tC{I}\t{IP}\t{PORT}\t10.0.0.5\tGET", i, at, ip)
		}), none, "id.orig_h"},
		{"CSV with quotes", made("time,client_ip,\"user agent\",path\n", func(i int, at time.Time, ip string) string {
			return fill(`"{RFC}","{IP}","says ""hi"", twice",/a`, i, at, ip)
		}), none, "client_ip"},
		{"CSV, date and time", made("Date;Time;Source;Bytes\n", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02;15:04:05};{IP};12", i, at, ip)
		}), none, "Source"},
		{"CSV of Excel", made("sep=;\r\nwhen;who\r\n", func(i int, at time.Time, ip string) string { return fill("{RFC};{IP}\r", i, at, ip) }), none, "who"},
		{"CSV of other names", made("when,who,what\n", func(i int, at time.Time, ip string) string { return fill("{RFC},{IP},GET", i, at, ip) }), none, "who"},
	}
	object := func(i int, at time.Time, ip string) string {
		return fill(`{"timestamp":"{RFC}","request":{"ip":"{IP}","tags":[{"a":"]"},{"b":"}"}]},"status":200}`, i, at, ip)
	}
	element := func(i int, at time.Time, ip string) string {
		return strings.TrimPrefix(",", strings.Repeat(",", btoi(i == 0))) + object(i, at, ip)
	}
	pretty := func(i int, at time.Time, ip string) string {
		return strings.ReplaceAll(element(i, at, ip), ",\"", ",\n  \"")
	}
	return append(logs,
		madeLog{"JSON array, a line each", made("[\n", element) + "]\n", none, "request.ip"},
		madeLog{"JSON array in one line", strings.ReplaceAll(made("[", element), "\n", "") + "]", none, "request.ip"},
		madeLog{"JSON array, pretty", made("[", pretty) + "]", none, "request.ip"},
		madeLog{"JSON objects, pretty", made("", func(i int, at time.Time, ip string) string {
			return strings.ReplaceAll(object(i, at, ip), ",", ",\n")
		}), none, "request.ip"},
		madeLog{"JSON objects in a row", strings.ReplaceAll(made("", object), "\n", ""), none, "request.ip"},
		madeLog{"JSON within an object", strings.ReplaceAll(made(`{"version":1,"Records":[`, element), "\n", "") + "]}", none, "request.ip"},
		madeLog{"JSON within objects, one a line", inObjects(made("", object), ","), none, "request.ip"},
		madeLog{"JSON within objects, pretty", inObjects(made("", object), "\n,\n"), none, "request.ip"},
		madeLog{"UTF-16", inUTF16(made("", object)), none, "request.ip"},
		madeLog{"a byte order mark and \\r\\n", "\xef\xbb\xbf" + strings.ReplaceAll(made("", object), "\n", "\r\n"), none, "request.ip"},
	)
}

// inObjects puts three lines into an object each.
func inObjects(text, between string) string {
	var b strings.Builder
	for three := range slices.Chunk(strings.Split(strings.TrimSpace(text), "\n"), 3) {
		b.WriteString(`{"records": [` + strings.Join(three, between) + "]}\n")
	}
	return b.String()
}

func inUTF16(text string) string {
	var b bytes.Buffer
	for _, c := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		b.Write([]byte{byte(c), byte(c >> 8)})
	}
	return b.String()
}

// readMade returns the keys, the first and the last time of a log.
func readMade(t *testing.T, text string, o Options) (l *Log, keys map[string]int, first, last time.Time, err error) {
	t.Helper()
	l, err = Open([]string{write(t, "made.log", text)}, nil, o)
	if err != nil {
		return nil, nil, first, last, err
	}
	keys = make(map[string]int)
	err = l.Read(t.Context(), func(b Batch) error {
		for _, r := range b.Requests {
			keys[string(r.Key)]++
			if last = time.Unix(0, r.At).UTC(); first.IsZero() {
				first = last
			}
		}
		return nil
	})
	return l, keys, first, last, err
}

// TestMadeLogs reads a log of each kind by itself: every line, every client, and the
// right time.
func TestMadeLogs(t *testing.T) {
	for _, m := range madeLogs() {
		l, keys, first, last, err := readMade(t, m.text, m.options)
		if !assert.NoError(t, err, m.name) {
			continue
		}
		f := l.Files[0]
		assert.Len(t, keys, madeKeys, m.name)
		assert.Equal(t, madeLines, f.Requests, "%s: %v", m.name, f.Skipped)
		assert.Equal(t, madeStart, first.Truncate(time.Second), m.name)
		assert.Equal(t, madeStart.Add((madeLines-1)*time.Second), last.Truncate(time.Second), m.name)
		assert.Equal(t, m.key+", IPv6 by /64", strings.Replace(f.Key, "key", "key, IPv6 by /64", btoi(m.key == "key")), m.name)
		assert.Empty(t, f.Skipped, m.name)
	}
}

// TestClientsThatAreNone: some are told; a log that has mostly them is refused, unless
// a field is named for it.
func TestClientsThatAreNone(t *testing.T) {
	log := func(none string, of int) string {
		return made("", func(i int, at time.Time, ip string) string {
			if i%6 < of {
				ip = none
			}
			return fill(`{"ts":"{RFC}","client_ip":"{IP}"}`, i, at, ip)
		})
	}
	l, keys, _, _, err := readMade(t, log("unknown", 3), Options{})
	require.NoError(t, err)
	f := l.Files[0]
	assert.NotContains(t, keys, "unknown")
	assert.Equal(t, []any{150, 150, "unknown", map[string]int{"no address in client_ip": 150}}, []any{f.Requests, f.NoAddress, f.MostOften, f.Skipped})

	_, _, _, _, err = readMade(t, log("unknown", 4), Options{})
	require.ErrorAs(t, err, new(Unreadable))
	require.ErrorContains(t, err, `most lines have no address in client_ip, 200 of 300, but "unknown"; --key names a field to take as it is, of client_ip, ts`)
	_, keys, _, _, err = readMade(t, log("unknown", 4), Options{Key: "client_ip"})
	require.NoError(t, err)
	assert.Equal(t, 200, keys["unknown"])
	_, _, _, _, err = readMade(t, log("-", 4), Options{Key: "ip/24"})
	require.ErrorContains(t, err, "most lines have no address in client_ip, 200 of 300; ")

	for name, text := range map[string]string{
		"a name": made("", func(i int, at time.Time, ip string) string { return "host.example.net " + afterClient(at) }),
		"a name and a user": made("", func(i int, at time.Time, ip string) string {
			return strings.Replace("host.example.net "+afterClient(at), "- -", "- ann lee", 1)
		}),
		"a name behind a virtual host": made("", func(i int, at time.Time, ip string) string {
			return "www.example.org:80 host.example.net " + afterClient(at)
		}),
	} {
		l, keys, _, _, err = readMade(t, text, Options{})
		require.NoError(t, err, name)
		assert.Equal(t, map[string]int{"host.example.net": 300}, keys, name)
		assert.Equal(t, 300, l.Files[0].HostNames, name)
		assert.Equal(t, "host.example.net", l.Files[0].OneClient, name)
	}
	for _, client := range []string{"unknown", "-", "www.example.org:443 unknown", "www.example.org -"} {
		_, _, _, _, err = readMade(t, made("", func(i int, at time.Time, ip string) string { return client + " " + afterClient(at) }), Options{})
		require.ErrorAs(t, err, new(Unreadable), client)
	}
}

// TestPatterns reads logs that have no name here by their patterns.
func TestPatterns(t *testing.T) {
	for name, c := range map[string]struct{ pattern, line string }{
		"nginx":              {`$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"`, `{IP} - - [{CLF}] "GET /say?"hi" HTTP/1.1" 200 5 "-"`},
		"nginx, in ms":       {`$msec|$remote_addr|$request_time|$request`, `{U}.123|{IP}|0.012|GET /a HTTP/1.1`},
		"nginx, as set":      {`log_format timed escape=default '$time_iso8601 $scheme://$host$request_uri ' '$status $remote_addr:$remote_port';`, `{RFC} https://example.org/a 200 {IP}:{PORT}`},
		"nginx, JSON":        {`{"at":"$time_iso8601","from":"$remote_addr","r":"$request"}`, `{"at":"{RFC}","from":"{IP}","r":"GET / HTTP/1.1"}`},
		"nginx, headers":     {`$http_x_forwarded_for [$time_local] $request_time ${upstream_addr}`, `198.51.100.1, {IP} [{CLF}] 0.01 10.0.0.1:80`},
		"Apache":             {`%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`, `www.example.org:443 {IP} - - [{CLF}] "GET / HTTP/1.1" 200 5 "-" "says \"hi\""`},
		"Apache, as set":     {`LogFormat "%{X-Forwarded-For}i %l %u %t \"%r\" %>s %b %D" timed`, `198.51.100.1, {IP} - - [{CLF}] "GET / HTTP/1.1" 200 5 12`},
		"Apache, a clock":    {`%{%Y-%m-%d}t %{%H:%M:%S}t %a %U%q %s`, `{T:2006-01-02 15:04:05} {IP} /a?b 200`},
		"Apache, days first": {`[%{%d/%m/%Y %H:%M:%S %z}t] %a`, `[{T:02/01/2006 15:04:05 -0700}] {IP}`},
		"Apache, in µs":      {`%{usec}t %a`, `{US} {IP}`},
		"Tomcat":             {`%t %I %{X-Real-IP}i "%r" %s`, `[{CLF}] exec-1 {IP} "GET / HTTP/1.1" 200`},
		"gunicorn":           {`%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s`, `{IP} - - [{CLF}] "GET / HTTP/1.1" 200`},
		"Envoy":              {`[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%" %RESPONSE_CODE% %DOWNSTREAM_REMOTE_ADDRESS%`, `[{T:2006-01-02T15:04:05.000Z}] "GET /a" 200 {IP}:{PORT}`},
		"HAProxy":            {`%ci:%cp [%tr] %ft %b/%s %ST %B`, `{IP}:{PORT} [{T:02/Jan/2006:15:04:05.000}] http-in~ static/srv1 200 2750`},
		"docs, nginx":        {`$remote_addr|$msec|$request_time|$request`, `{IP}|{U}.123|0.012|GET /a HTTP/1.1`},
		"docs, Apache":       {`[%{%d/%m/%Y %H:%M:%S %z}t] %v %a "%r" %>s`, `[{T:02/01/2006 15:04:05 -0700}] www.example.org {IP} "GET / HTTP/1.1" 200`},
		"docs, a list":       {`$time_iso8601 $request_method $uri $status $http_x_forwarded_for $upstream`, `{RFC} GET /a 200 198.51.100.9, {IP} 10.0.0.1:80`},
		"nginx, bare time":   {`$time_local $upstream_addr $remote_addr $status`, `{CLF} 10.0.0.{FEW}:80 {IP} 200`},
		"Apache, bare time":  {`%{%Y-%m-%d %H:%M:%S}t %A %a %>s`, `{T:2006-01-02 15:04:05} 10.0.0.{FEW} {IP} 200`},
		"nginx, PROXY":       {`$proxy_protocol_addr $remote_addr [$time_local]`, `{IP} 10.0.0.5 [{CLF}]`},
		"Apache, fractions":  {`[%{%Y-%m-%d %H:%M:%S}t.%{msec_frac}t] %a`, `[{T:2006-01-02 15:04:05.000}] {IP}`},
		"halves of days":     {`%{%Y-%m-%d %I:%M:%S %p}t %a`, `{T:2006-01-02 03:04:05 PM} {IP} GET`},
		"Squid":              {`%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru`, `{U}.779    180 {IP} TCP_MISS/200 411 GET http://x/`},
	} {
		text := made("", func(i int, at time.Time, ip string) string { return fill(c.line, i, at, ip) })
		_, err := ParseFormat(c.pattern)
		require.NoError(t, err, name)
		l, keys, first, last, err := readMade(t, text, Options{Format: Format(c.pattern)})
		if !assert.NoError(t, err, name) {
			continue
		}
		assert.Len(t, keys, madeKeys, name)
		assert.Empty(t, l.Files[0].Skipped, name)
		assert.Equal(t, madeStart, first.Truncate(time.Second), name)
		assert.Equal(t, madeStart.Add((madeLines-1)*time.Second), last.Truncate(time.Second), name)
	}
	for pattern, want := range map[string]string{
		"combine":                           "must be auto, json, envoy, combined, common, tsv, csv, w3c or words, or a pattern such as '$remote_addr [$time_local]'",
		"100 %":                             "has no field, such as $remote_addr or %h",
		`%h %{%Q}t`:                         "has a time with %Q, which is not read",
		strings.Repeat("$a ", mostFields+1): "has 129 fields, must be at most 128",
	} {
		_, err := ParseFormat(pattern)
		assert.EqualError(t, err, want, pattern)
	}
	_, _, _, _, err := readMade(t, made("", func(i int, at time.Time, ip string) string { return fill(`{IP} {REST}`, i, at, ip) }),
		Options{Format: `$remote_addr - $remote_user [$time_iso8601] $status "$request"`})
	require.ErrorContains(t, err, `line 1: the pattern does not fit at time_iso8601: "203.0.113.1 - - [10/Nov/2026:`)
}

// TestChoicesAreTold reads logs of which several readings are likely: one is taken, and
// the doubt is told.
func TestChoicesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		line, pattern, key string
		told               string // "": nothing
	}{
		"public proxies":          {`192.0.2.{FEW} {REST}{AGENTS} "{IP}"`, "", "remote_addr", "remote_addr has 20 addresses in the first 200 lines, x_forwarded_for has 107"},
		"proxies, then a client":  {`192.0.2.{FEW} {IP} {REST}{AGENTS}`, "", "remote_addr", "the first is taken, which has 20 in the first 200 lines; the last has 107"},
		"private addresses alone": {`10.0.0.{FEW3} {REST}{AGENTS}`, "", "remote_addr", "remote_addr has 3 addresses in the first 200 lines, all of private networks"},
		"two usual names": {`{"ts":"{RFC}","ip":"192.0.2.{FEW}","client":"{IP}"}`, "", "client",
			"ip has 20 addresses in the first 200 lines, client has 107; the client is taken from client"},
		"a header of JSON": {`{"ts":"{RFC}","remote_addr":"192.0.2.{FEW}","http_x_real_ip":"{IP}"}`, "", "remote_addr",
			"remote_addr has 20 addresses in the first 200 lines, http_x_real_ip has 107"},
		"a header of a pattern": {`192.0.2.{FEW} "{IP}" [{CLF}]`, `$remote_addr "$http_cf_connecting_ip" [$time_local]`, "remote_addr",
			"http_cf_connecting_ip has 107"},
		"headers that clients write": {`{"ts":"{RFC}","x_forwarded_for":"192.0.{FEW}.{I7}","downstream_remote_address":"{IP}:{PORT}"}`, "",
			"downstream_remote_address", "downstream_remote_address has 107 addresses in the first 200 lines, x_forwarded_for has 200"},
		"a program called client": {`{"ts":"{RFC}","client":"app-2.0.1","clientIpAddress":"{IP}"}`, "", "clientIpAddress", "as \"203.0.113.1\""},
		"a gateway":               {`{"ts":"{RFC}","gateway":{"ip":"192.0.2.{FEW}"},"client":{"ipaddr":"{IP}"}}`, "", "client.ipaddr", ""},
		"gin":                     {`[GIN] {T:2006/01/02 - 15:04:05} | 200 | 12ms | {IP} | GET "/"`, "", "10", "the client is taken from word 10"},
		"a list in front":         {`{IP} 10.0.0.{FEW} {REST}`, "", "remote_addr", ""},
		"a time that stands, told": {`{"a":"{RFC}","ip":"{IP}","time":"2026-11-10T00:00:00Z"}`, "", "ip",
			"time is the same in the first 200 lines, a is not: --time names another field"},
		"a proxy that tells":     {`{"proxy":{"timestamp":"{RFC}","ip":"192.0.2.{FEW}","clientIp":"{IP}"}}`, "", "proxy.clientIp", ""},
		"a time that stands":     {`{"time":"2026-11-10T00:00:00Z","ts":"{RFC}","ip":"{IP}"}`, "", "ip", ""},
		"words of two addresses": {`{RFC} 192.0.2.{FEW60} {IP} GET`, "", "2", "which has 60 addresses in the first 200 lines; word 3 has 107"},
		"a zone in words":        {`{T:2006-01-02 15:04:05} PST {IP} GET`, "", "4", `word 3, as "PST", is not read: the times are taken as UTC`},
		"a zone in a field":      {`{"date":"{T:2006-01-02}","time":"{T:15:04:05}","tz":"+0100","ip":"{IP}"}`, "", "ip", `tz, as "+0100", is not read`},
		"UTC":                    {`{"date":"{T:2006-01-02}","time":"{T:15:04:05}","tz":"UTC","ip":"{IP}"}`, "", "ip", ""},
	} {
		text := made("", func(i int, at time.Time, ip string) string {
			return fill(strings.ReplaceAll(c.line, "{I7}", fmt.Sprint(i%251)), i, at, ip)
		})
		l, _, first, last, err := readMade(t, text, Options{Format: Format(c.pattern)})
		if !assert.NoError(t, err, name) {
			continue
		}
		f := l.Files[0]
		assert.Equal(t, c.key+", IPv6 by /64", f.Key, name)
		if !strings.Contains(c.told, "--time") {
			assert.Equal(t, []time.Time{madeStart, madeStart.Add((madeLines - 1) * time.Second)}, []time.Time{first, last}, name)
		}
		assert.Equal(t, madeLines, f.Requests, name)
		if told := strings.Join(f.Notes, "\n"); c.told == "" {
			assert.Empty(t, told, name)
		} else {
			assert.Contains(t, told, c.told, name)
		}
	}
}

// TestChangesAreTold reads logs whose later lines contradict what the first ones have
// chosen, wherever that begins.
func TestChangesAreTold(t *testing.T) {
	const (
		direct  = `{"ts":"{RFC}","remote_addr":"{IP}","xff":"-"}`
		proxied = `{"ts":"{RFC}","remote_addr":"10.0.0.{FEW3}","xff":"{IP}"}`
		clocks  = `{"ts":"2026-11-10T07:00:00Z","at":"{RFC}","ip":"{IP}"}`
	)
	for name, c := range map[string]struct {
		before, after string
		from, lines   int
		head          string
		told          string // "": nothing
	}{
		"a proxy":                 {direct, proxied, 200, 300, "", "it changes: in 100 of 100 lines behind the first 200 that were looked at, as in those from line 201 on, another client would be taken (xff, IPv6 by /64): --key names one for all lines"},
		"a proxy, far behind":     {direct, proxied, 30_000, 45_000, "", "another client would be taken (xff, IPv6 by /64)"},
		"a few lines of a proxy":  {direct, proxied, 290, 300, "", ""},
		"no change":               {direct, direct, 200, 20_000, "", ""},
		"a proxy in CSV":          {`{RFC},{IP},-`, `{RFC},10.0.0.{FEW3},{IP}`, 199, 300, "ts,remote_addr,xff\n", "(xff, IPv6 by /64)"},
		"a proxy in W3C":          {`{T:2006-01-02 15:04:05} {IP} -`, `{T:2006-01-02 15:04:05} 10.0.0.{FEW3} {IP}`, 199, 300, "#Fields: date time c-ip X-Forwarded-For\n", "(X-Forwarded-For, IPv6 by /64)"},
		"another place":           {`{RFC} {IP} GET /a`, `{RFC} 10.0.0.{FEW3} {IP} /a`, 200, 300, "", "(3, IPv6 by /64)"},
		"an address before":       {`{IP} {REST}`, `10.0.0.5 {IP} {REST}`, 200, 300, "", "another client would be taken (remote_addr, IPv6 by /64)"},
		"a time that stands":      {`{"ts":"{RFC}","at":"{RFC}","ip":"{IP}"}`, clocks, 200, 300, "", "from line 201 on ts is the same in 100 lines, at is not: --time names another field"},
		"public proxies":          {direct, `{"ts":"{RFC}","remote_addr":"192.0.2.{FEW3}","xff":"{IP}"}`, 200, 300, "", "from line 201 on remote_addr has 3 addresses in 100 lines, xff has 100"},
		"behind grep, in objects": {`a.log:{"log":"{IP} - - [{CLF}] \"GET / HTTP/1.1\" 200 1"}`, `a.log:{"log":"10.0.0.5 {IP} - - [{CLF}] \"GET / HTTP/1.1\" 200 1"}`, 200, 300, "", "another client"},
	} {
		text := strings.Builder{}
		text.WriteString(c.head)
		for i := range c.lines {
			pattern := c.before
			if i >= c.from {
				pattern = c.after
			}
			text.WriteString(fill(pattern, i, madeStart.Add(time.Duration(i)*time.Second), fmt.Sprintf("203.0.113.%d", i%madeKeys+1)) + "\n")
		}
		l, _, _, _, err := readMade(t, text.String(), Options{})
		if !assert.NoError(t, err, name) {
			continue
		}
		if told := strings.Join(l.Files[0].Notes, "\n"); c.told == "" {
			assert.Empty(t, told, name)
		} else {
			assert.Contains(t, told, c.told, name)
		}
	}
}

// TestLogsWithNamesOfHosts reads the logs that package accuracy has among its testdata.
func TestLogsWithNamesOfHosts(t *testing.T) {
	for name, want := range map[string][]any{
		"combined.log": {Combined, 3, 1, 0}, "common.log": {Common, 4, 0, 1},
	} {
		l, _ := read(t, Options{}, filepath.Join("../../../accuracy/testdata", name))
		f := l.Files[0]
		assert.Equal(t, want, []any{f.Format, f.Requests, f.HostNames, len(f.Skipped)}, name)
	}
}

// TestDamagedLogs: what is left of a log is read, and what is not is told; or nothing is.
func TestDamagedLogs(t *testing.T) {
	line := func(i int, at time.Time, ip string) string { return ip + " " + afterClient(at) + agents }
	object := func(i int, at time.Time, ip string) string { return fill(`{"time":"{RFC}","ip":"{IP}"}`, i, at, ip) }
	combined := made("", line)
	for name, c := range map[string]struct {
		text     string
		requests int    // of the 300
		want     string // the error, or what is told of the file
	}{
		"cut off":             {combined[:len(combined)-40], 299, "no referrer"},
		"cut off, compressed": {gzipped(t, combined)[:1500], -1, "it ends in the midst of compressed data"},
		"carriage returns":    {strings.ReplaceAll(combined, "\n", "\r"), 300, ""},
		"zeros within":        {combined[:9000] + strings.Repeat("\x00", 500) + combined[9000:], 300, ""},
		"prose in between":    {strings.ReplaceAll(combined, "\n", "\nTraceback (most recent call last):\n"), 300, "no time in brackets"},
		"a very long line":    {combined + strings.Repeat("x", 2*maxLine) + "\n", 300, tooLong},
		"lines cut in the midst": {made("", func(i int, at time.Time, ip string) string {
			return line(i, at, ip)[:10+15*btoi(i%7 > 0)]
		}), 0, "no usable line"},
		"objects cut off": {made("", func(i int, at time.Time, ip string) string {
			text := object(i, at, ip)
			return text[:len(text)-12*btoi(i%5 == 0)]
		}), 240, noObject},
		"an array cut off": {"[" + strings.ReplaceAll(made("", object), "\n", ",\n")[:9010], -1, noObject},
		"an array without some braces": {"[\n" + made("", func(i int, at time.Time, ip string) string {
			return object(i, at, ip)[:len(object(i, at, ip))-btoi(i%50 == 0)] + ","
		}) + "]", 294, noObject},
		"two formats": {combined[:len(combined)/2] + made("", object), -1, "no client host"},
		"HTML":        {strings.Repeat("<html><body>404</body></html>\n", 9), 0, "it looks like HTML or XML"},
		"days or months": {made("", func(i int, at time.Time, ip string) string {
			return fill("{T:02/01/2006 15:04:05} {IP} 200", i, at, ip)
		}), 0, "nobody can tell day and month"},
		"AM and PM": {made("", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02 03:04:05 PM} {IP} GET", i, at, ip)
		}), 0, `"AM" of the time is in a field of its own, which is not read`},
		"no client but the server's": {made("#Fields: date time s-ip cs-uri-stem\n", func(i int, at time.Time, ip string) string {
			return fill("{T:2006-01-02 15:04:05} {IP} /a", i, at, ip)
		}), 0, "no field holds addresses"},
		"no client but the authority": {made("", func(i int, at time.Time, ip string) string {
			return fill(`[{T:2006-01-02T15:04:05.000Z}] "GET /a HTTP/2" 200 - 0 512 12 11 "-" "curl/8.9" "0f0e" "{IP}" "10.0.0.5:8080"`, i, at, ip)
		}), 0, "x_forwarded_for"},
		"the newest first": {made("", func(i int, at time.Time, ip string) string {
			return ip + " " + afterClient(madeStart.Add(-time.Duration(i)*time.Second))
		}), 0, "its newest lines come first"},
		"an address in text": {made("", func(i int, at time.Time, ip string) string {
			return fill("{RFC} [client {IP}:{PORT}] GET", i, at, ip)
		}), 0, "a pattern of --format can take one out of text, as of"},
		"a port for a client": {made("", func(i int, at time.Time, ip string) string {
			return fill(`{"ts":"{RFC}","client_port":"2001:db8::{I}"}`, i, at, ip)
		}), 0, "no field holds addresses"},
		"days or months in a column": {"date,ip\n" + made("", func(i int, at time.Time, ip string) string {
			return fill("{T:02/01/2006 15:04:05},{IP}", i, at, ip)
		}), 0, "--format can describe the whole line in a pattern"},
		"a header without a time": {"Datum;Zeit;ClientIP;URL;Status\n" + made("", func(i int, at time.Time, ip string) string {
			return fill("{T:02.01.2006};{T:15:04:05};{IP};/;200", i, at, ip)
		}), 0, "it looks like the header of csv, but no column is called as a time usually is: --time names one"},
		"fields of two lines": {`"time","ip","body"` + "\n" + made("", func(i int, at time.Time, ip string) string {
			return fill(`"{RFC}","{IP}","one`+"\n"+`two"`, i, at, ip)
		}), 0, "fields of several lines are not read"},
		"no year": {made("", func(i int, at time.Time, ip string) string {
			return fill("{T:Jan _2 15:04:05} web01 app: from {IP}", i, at, ip)
		}), 0, "its time has no year"},
		"a duration alone": {made("", func(i int, at time.Time, ip string) string { return fill(`{"time":0.0{I},"ip":"{IP}"}`, i, at, ip) }), 0, "no time of 1995 … 2100 can be read in `time`"},
		"two clients": {made("", func(i int, at time.Time, ip string) string {
			return fill(`{"ts":"{RFC}","a":"{IP}","b":"192.0.2.{I}"}`, i%100, at, ip)
		}), 0, "several fields hold addresses"},
	} {
		l, keys, _, _, err := readMade(t, c.text, Options{})
		if c.requests == 0 {
			assert.ErrorAs(t, err, new(Unreadable), name)
			assert.ErrorContains(t, err, c.want, name)
			continue
		}
		if !assert.NoError(t, err, name) {
			continue
		}
		f := l.Files[0]
		told := f.CutOff
		for reason := range f.Skipped {
			told += reason
		}
		assert.Equal(t, c.want, told, name)
		if c.requests > 0 {
			assert.Equal(t, c.requests, f.Requests, name)
			assert.Len(t, keys, madeKeys, name)
		}
	}
}
