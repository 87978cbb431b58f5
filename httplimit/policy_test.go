package httplimit_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

// policies is a Decider that always says the same.
type policies []httplimit.Policy

func (p policies) Decide(a *httplimit.Answer, _ *http.Request, _ int) {
	a.Policies = append(a.Policies, p...)
}

// policy is one of q an hour: "name r/q reset", "name 0/q next" or "name !wait/q"; a name
// that begins with "~" is in shadow mode. Times are seconds.
func policy(t *testing.T, text string) httplimit.Policy {
	t.Helper()
	name, rest, _ := strings.Cut(text, " ")
	state, after, _ := strings.Cut(rest, " ")
	state, limit, _ := strings.Cut(state, "/")
	p := httplimit.Policy{Window: time.Hour}
	p.Name, p.Shadow = strings.CutPrefix(name, "~")
	var err error
	p.Limit, err = strconv.Atoi(limit)
	require.NoError(t, err)
	wait, refused := strings.CutPrefix(state, "!")
	switch {
	case wait == "never":
		p.RetryAfter = sketchlimit.Never
	case refused:
		p.RetryAfter = seconds(t, wait)
	default:
		p.Allowed = true
		p.Remaining, err = strconv.Atoi(state)
		require.NoError(t, err)
		p.ResetAfter, p.Next = seconds(t, after), seconds(t, after)
	}
	return p
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policies string // see policy; separated by commas
		fields   string
		violated string // "" if the request passes
	}{
		{"", "- | - | - | - | - | - | -", ""},
		{"a 5/9 60", `"a";q=9;w=3600 | "a";r=5;t=60 | - | 9 | 5 | 60 | -`, ""},
		{"a 5/9 60,b 4/99 70", `"a";q=9;w=3600, "b";q=99;w=3600 | "b";r=4;t=70 | - | 99 | 4 | 70 | -`, ""},
		{"b 4/99 70,a 5/9 60", `"b";q=99;w=3600, "a";q=9;w=3600 | "b";r=4;t=70 | - | 99 | 4 | 70 | -`, ""},
		{"a 5/9 60,b 5/99 70", `"a";q=9;w=3600, "b";q=99;w=3600 | "b";r=5;t=70 | - | 99 | 5 | 70 | -`, ""},
		{"a 0/9 60,b 0/99 50", `"a";q=9;w=3600, "b";q=99;w=3600 | "a";r=0;t=60 | - | 9 | 0 | 60 | -`, ""},
		{"a 0/9 60,b !50/99", `"a";q=9;w=3600, "b";q=99;w=3600 | "b";r=0;t=50 | 50 | 99 | 0 | 0 | 50`, `"b"`},
		{"a !60/9,b !50/99", `"a";q=9;w=3600, "b";q=99;w=3600 | "a";r=0;t=60 | 60 | 9 | 0 | 0 | 60`, `"a","b"`},
		{"a !50/9,b 7/8 1,c !70/9,d !60/9", `"a";q=9;w=3600, "b";q=8;w=3600, "c";q=9;w=3600, "d";q=9;w=3600 | "c";r=0;t=70 | 70 | 9 | 0 | 0 | 70`, `"c","a","d"`},
		{"a !60/9,b !never/0", `"a";q=9;w=3600, "b";q=0;w=3600 | "b";r=0 | - | 0 | 0 | 0 | -`, `"b","a"`},
		{"~a !60/9", "- | - | - | - | - | - | -", ""},
		{"~a !60/9,b 5/9 60", `"b";q=9;w=3600 | "b";r=5;t=60 | - | 9 | 5 | 60 | -`, ""},
		{"~a !60/9,b !50/9", `"b";q=9;w=3600 | "b";r=0;t=50 | 50 | 9 | 0 | 0 | 50`, `"b"`},
		{"pfad_/suche/ä 5/9 60", `"pfad_/suche/%C3%A4";q=9;w=3600 | "pfad_/suche/%C3%A4";r=5;t=60 | - | 9 | 5 | 60 | -`, ""},
		{"a\r\nb: 5/9 60", `"a%0D%0Ab:";q=9;w=3600 | "a%0D%0Ab:";r=5;t=60 | - | 9 | 5 | 60 | -`, ""},
	} {
		var list policies
		if c.policies != "" {
			for text := range strings.SplitSeq(c.policies, ",") {
				list = append(list, policy(t, text))
			}
		}
		var seen, want []string
		for _, p := range list {
			if !p.Allowed {
				want = append(want, p.Name, p.Name)
			}
		}
		note := httplimit.OnRefusal(func(_ *http.Request, p httplimit.Policy) { seen = append(seen, p.Name) })
		limit, err := httplimit.NewPolicies(list, httplimit.Headers(all), note, note)
		require.NoError(t, err)
		w := get(limit(http.NotFoundHandler()), user("ann"))
		require.Equal(t, c.fields, sent(w.Header()), c.policies)
		require.Equal(t, want, seen, "every refusal is told to everybody who asked")
		if c.violated == "" {
			require.Equal(t, http.StatusNotFound, w.Code, c.policies)
		} else {
			require.Equal(t, http.StatusTooManyRequests, w.Code, c.policies)
			require.Contains(t, w.Body.String(), `"violated-policies":[`+c.violated+`]}`)
		}

		limit, err = httplimit.NewPolicies(list, httplimit.Headers(all), httplimit.Shadow())
		require.NoError(t, err)
		w = get(limit(http.NotFoundHandler()), user("ann"))
		require.Equal(t, http.StatusNotFound, w.Code)
		require.Equal(t, "- | - | - | - | - | - | -", sent(w.Header()))
	}
}
