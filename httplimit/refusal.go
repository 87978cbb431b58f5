package httplimit

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Refuser is a ResponseWriter that answers a refusal itself, in place of the 429, as
// that of package grpclimit does. The policies are those of [Refusal], which takes
// precedence.
type Refuser interface {
	Refuse(refusing []Policy)
}

// refuse is the default answer to a request that policies do not admit: a problem (RFC
// 9457) of the type that the draft registers, or text.
func refuse(w http.ResponseWriter, r *http.Request, refusing []Policy) {
	if own, ok := reach[Refuser](w); ok {
		own.Refuse(refusing)
		return
	}
	if !takesProblem(r.Header["Accept"]) {
		http.Error(w, "Too many requests", http.StatusTooManyRequests)
		return
	}
	names := make([]string, len(refusing))
	for i := range refusing {
		names[i] = refusing[i].Name
	}
	problem, _ := json.Marshal(struct { // strings and numbers cannot fail
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Policies []string `json:"violated-policies"`
	}{
		"https://iana.org/assignments/http-problem-types#quota-exceeded",
		"Too many requests", http.StatusTooManyRequests, names,
	})
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(append(problem, '\n')) // a client that has gone needs no answer
}

const problemType = "application/problem+json"

// Media ranges that take an answer, the most specific first. Who asks for JSON can read
// a problem.
var (
	problemRanges = []string{problemType, "application/json", "application/*", "*/*"}
	textRanges    = []string{"text/plain", "text/*", "*/*"}
)

// takesProblem reports whether a client accepts a problem, with no less weight than text.
// Without an Accept field a client accepts anything.
func takesProblem(accept []string) bool {
	if len(accept) == 0 {
		return true
	}
	problem := weight(accept, problemRanges)
	return problem > 0 && problem >= weight(accept, textRanges)
}

// weight returns the weight, 0 … 1000, of the most specific of the ranges that is in the
// lines of Accept (RFC 9110, section 12.5.1); 0 if none is.
func weight(accept, ranges []string) int {
	best, rank := 0, len(ranges)
	for _, line := range accept {
		for element, more := "", true; more; {
			element, line, more = cutUnquoted(line, ',')
			name, parameters, _ := cutUnquoted(element, ';')
			name = strings.Trim(name, ows)
			for i, r := range ranges[:min(rank+1, len(ranges))] {
				if strings.EqualFold(name, r) {
					w := parseWeight(parameters)
					if i < rank {
						best, rank = w, i
					}
					best = max(best, w)
				}
			}
		}
	}
	return best
}

// parseWeight returns the parameter q in thousandths: 1000 if it is missing, 0 if it is
// malformed.
func parseWeight(parameters string) int {
	for p, more := "", true; more; {
		p, parameters, more = cutUnquoted(parameters, ';')
		name, value, ok := strings.Cut(strings.Trim(p, ows), "=")
		if ok && strings.EqualFold(name, "q") {
			return thousandths(value)
		}
	}
	return 1000
}

// thousandths reads 0 … 1 with up to three decimals.
func thousandths(s string) int {
	whole, decimals, _ := strings.Cut(s, ".")
	if (whole != "0" && whole != "1") || len(decimals) > 3 {
		return 0
	}
	n := int(whole[0] - '0')
	for _, c := range []byte((decimals + "000")[:3]) {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	if n > 1000 {
		return 0
	}
	return n
}

// cutUnquoted cuts s at the first separator outside quotes.
func cutUnquoted(s string, separator byte) (before, after string, found bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
