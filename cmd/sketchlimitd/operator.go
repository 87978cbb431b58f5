package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sketchlimit/sketchlimit/rules"
)

// maxRefused is how many of the keys that are refused the most are listed for each rule.
const maxRefused = 10

// forgiveRequest names a key as requests do.
type forgiveRequest struct {
	Domain  string  `json:"domain"`
	Entries []entry `json:"entries"`
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// forgiven is the answer to it.
type forgiven struct {
	Rule  string    `json:"rule"`
	Units int       `json:"units"` // that the key may use once more
	Until time.Time `json:"until,omitzero"`
}

// refusedKey is a key that is refused, see topkeys.Count.
type refusedKey struct {
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	Count uint64 `json:"count"` // of refusals in the present minute
	Error uint64 `json:"error"` // by which it may be too high
}

// isOperator reports whether a request has OPERATOR_TOKEN.
func (s *server) isOperator(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.settings.OperatorToken))
	return ok && s.settings.OperatorToken != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// forgive gives a key back what it has used, for operators.
func (s *server) forgive(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "must be POST", http.StatusMethodNotAllowed)
		return
	case s.settings.OperatorToken == "":
		http.Error(w, "OPERATOR_TOKEN is not set: nobody may", http.StatusForbidden)
		return
	case !s.isOperator(r):
		s.logger.Warn("forgive without OPERATOR_TOKEN", "from", r.RemoteAddr)
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "Authorization must be Bearer and OPERATOR_TOKEN", http.StatusUnauthorized)
		return
	}
	var asked forgiveRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		http.Error(w, fmt.Sprintf("body: %v, must be domain and entries", err), http.StatusBadRequest)
		return
	}
	var d rules.Descriptor
	for _, e := range asked.Entries {
		d = append(d, rules.Entry{Key: e.Key, Value: e.Value})
	}
	f, err := s.rules.Forgive(asked.Domain, d)
	if err != nil {
		http.Error(w, strings.TrimPrefix(err.Error(), "rules: "), http.StatusUnprocessableEntity)
		return
	}
	s.logger.Warn("a key is forgiven", "rule", f.Rule.String(), "key", s.shown(key(d)), "units", f.Units, "until", f.Until, "from", r.RemoteAddr)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(forgiven{f.Rule.String(), f.Units, f.Until})
}

// refused lists the keys that are refused the most, by rule. Operators see them as they
// are.
func (s *server) refused(w http.ResponseWriter, r *http.Request) {
	shown := s.shown
	if s.isOperator(r) {
		shown = rules.KeyText
	}
	all := []refusedKey{}
	times := map[string]int{}
	for _, c := range s.refusals.top.Report().Counts { // those with the most first
		if times[c.Policy]++; times[c.Policy] <= maxRefused {
			all = append(all, refusedKey{c.Policy, shown(c.Key), c.Count, c.Error})
		}
	}
	slices.SortStableFunc(all, func(a, b refusedKey) int { return strings.Compare(a.Rule, b.Rule) })
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(all)
}

// shown is a key of refusals as the page shows it.
func (s *server) shown(key []byte) string {
	if s.page.Text != nil {
		return s.page.Text(key)
	}
	return rules.KeyText(key)
}

// client asks a service that runs, for the command line.
type client struct {
	server string // URL of the debugging port
	token  string
}

// call sends a body, none if it is nil, and reads the answer.
func (c *client) call(path string, body, answer any) error {
	request, err := http.NewRequest(http.MethodGet, strings.TrimSuffix(c.server, "/")+path, nil)
	if err != nil {
		return err
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request.Method, request.Body = http.MethodPost, io.NopCloser(strings.NewReader(string(text)))
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", c.server, response.Status, strings.TrimSpace(string(text)))
	}
	return json.Unmarshal(text, answer)
}

// parseEntries reads key=value, as in the log and on the page.
func parseEntries(args []string) (all []entry, err error) {
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("entry %q, must be key=value", arg)
		}
		all = append(all, entry{key, value})
	}
	if len(all) == 0 {
		return nil, errors.New("no entries, must be one key=value or more")
	}
	return all, nil
}
