package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/sketchlimit/sketchlimit/budget"
	"github.com/sketchlimit/sketchlimit/httplimit"
)

const maxBody = 16 << 20

// chat is what the proxy knows of a request.
type chat struct {
	// prompt is the tokens of the prompt at the most: the bytes of the request, because
	// no token is shorter. Divide them by 3 to hold less; what a prompt costs beyond is
	// then counted when it is known, as pictures are.
	prompt     int
	generate   int  // tokens at the most
	wantsUsage bool // at the end of a stream
}

type chatKey struct{}

func chatOf(r *http.Request) *chat { return r.Context().Value(chatKey{}).(*chat) }

// newProxy returns a handler of chat completions. There is nothing else, for nobody
// would limit it.
func newProxy(b *budget.Budget, upstream *url.URL, generate int) http.Handler {
	limit, err := httplimit.NewBudget(httplimit.Spending{
		Budget: b,
		Names:  []string{"minute", "day"},
		Key: httplimit.KeyFunc(func(dst []byte, r *http.Request) []byte {
			sum := sha256.Sum256([]byte(r.Header.Get("Authorization"))) // nobody else needs to know it
			return append(dst, sum[:]...)
		}),
		AtMost: func(r *http.Request) int { return chatOf(r).prompt + chatOf(r).generate },
	})
	if err != nil {
		panic(err) // the Spending is wrong
	}
	limited := limit(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del("Accept-Encoding") // the transport decodes what it has asked for itself
		},
		ModifyResponse: settle,
		ErrorHandler:   unanswered,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		token := strings.Fields(r.Header.Get("Authorization"))
		if len(token) != 2 || !strings.EqualFold(token[0], "Bearer") {
			http.Error(w, "no API key", http.StatusUnauthorized)
			return
		}
		r.Header.Set("Authorization", "Bearer "+token[1]) // a user is one, however the field is written
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var c *chat
		if err == nil {
			body, c, err = prepare(body, generate)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), chatKey{}, c))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		limited.ServeHTTP(w, r)
	})
	return mux
}

// prepare returns the request for the upstream: it always limits what is generated, and
// asks for the usage of a stream.
func prepare(body []byte, otherwise int) ([]byte, *chat, error) {
	var fields, options map[string]json.RawMessage // a struct would read "MAX_TOKENS", too, which the upstream does not
	err := json.Unmarshal(body, &fields)
	if err == nil && fields == nil {
		err = errors.New("null, must be an object")
	}
	read := func(from map[string]json.RawMessage, name string, value any) {
		if err == nil && from[name] != nil {
			err = json.Unmarshal(from[name], value)
		}
	}
	var older, newer, choices int
	var stream, wantsUsage bool
	read(fields, "max_tokens", &older)
	read(fields, "max_completion_tokens", &newer)
	read(fields, "n", &choices)
	read(fields, "stream", &stream)
	read(fields, "stream_options", &options)
	read(options, "include_usage", &wantsUsage)
	if err == nil && min(older, newer) < 0 { // no limit at all, for some
		err = errors.New("less than no tokens")
	}
	if err != nil {
		return nil, nil, err
	}
	generate := max(older, newer)
	if generate < 1 {
		generate = otherwise
		fields["max_completion_tokens"], _ = json.Marshal(generate)
	}
	if stream {
		if options == nil {
			options = map[string]json.RawMessage{}
		}
		options["include_usage"] = json.RawMessage("true")
		fields["stream_options"], _ = json.Marshal(options)
	}
	generate = min(generate, math.MaxInt32) * min(max(choices, 1), math.MaxInt32) // no limit is higher
	sent, err := json.Marshal(fields)
	return sent, &chat{len(body), generate, wantsUsage}, err
}

// settle settles what an answer has used. One that does not say so is settled in full
// when the handler ends.
func settle(answer *http.Response) error {
	hold, _ := httplimit.HoldOf(answer.Request)
	if answer.StatusCode >= 400 { // errors are not charged for
		hold.Settle(0)
		return nil
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		answer.Header.Del("Content-Length")
		answer.Body = &events{
			ReadCloser: answer.Body, lines: bufio.NewReader(answer.Body), chat: chatOf(answer.Request), hold: hold,
		}
		return nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var said struct{ Usage usage }
	if json.Unmarshal(body, &said) == nil && said.Usage.TotalTokens > 0 {
		hold.Settle(said.Usage.TotalTokens)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// unanswered is what a client gets without an answer of the upstream, which has used
// nothing if it was not reached.
func unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if failed := (*net.OpError)(nil); errors.As(err, &failed) && failed.Op == "dial" {
		hold, _ := httplimit.HoldOf(r)
		hold.Settle(0)
	}
	http.Error(w, "no answer from the upstream", http.StatusBadGateway)
}
