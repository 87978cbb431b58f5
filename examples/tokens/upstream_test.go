package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// upstream speaks as the API does. A prompt has a token for each word. An answer has as
// many as the model's name says, each a chunk if it is a stream. What else is to happen
// stands in the name, too.
type upstream struct {
	*testing.T
	*httptest.Server
	release chan struct{} // those that wait

	mu       sync.Mutex
	used     map[string]int // tokens by API key, of all that was generated
	requests int
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{T: t, release: make(chan struct{}), used: map[string]int{}}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstream) spend(r *http.Request, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] += n
}

func (u *upstream) wait(r *http.Request) {
	select {
	case <-u.release:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

// spent returns what an API key has used, and how many requests came of all.
func (u *upstream) spent(key string) (tokens, requests int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used[key], u.requests
}

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model               string
		Messages            []struct{ Content string }
		MaxTokens           int             `json:"max_tokens"`
		MaxCompletionTokens int             `json:"max_completion_tokens"`
		Stream              bool            `json:"stream"`
		StreamOptions       map[string]bool `json:"stream_options"`
		Temperature         json.Number
		ThisFieldIsNobodys  *int `json:"-"`
	}
	decoder := json.NewDecoder(r.Body)
	if !assert.Equal(u, "/v1/chat/completions", r.URL.Path) || !assert.NoError(u, decoder.Decode(&q)) {
		return
	}
	u.mu.Lock()
	u.requests++
	u.mu.Unlock()
	assert.Positive(u, q.MaxTokens+q.MaxCompletionTokens, "all answers have an end")
	assert.Equal(u, q.Stream, q.StreamOptions["include_usage"])
	prompt, tokens, does := 0, 0, ""
	for _, m := range q.Messages {
		prompt += len(strings.Fields(m.Content))
	}
	fmt.Sscanf(q.Model, "%d-%s", &tokens, &does)
	tokens = min(tokens, max(q.MaxTokens, q.MaxCompletionTokens))
	switch does {
	case "fails":
		http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
		return
	case "dies":
		panic(http.ErrAbortHandler)
	}
	u.spend(r, prompt)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, tokens, prompt+tokens)
	if does == "hides" {
		usage = "null"
	}
	if !q.Stream {
		if does == "waits" {
			u.wait(r)
		}
		u.spend(r, tokens)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"a","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",`+
			`"message":{"role":"assistant","content":%q}}],"usage":%s}`, strings.Repeat("word ", tokens), usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(format string, args ...any) error {
		_, err := io.WriteString(w, "data: "+fmt.Sprintf(format, args...)+"\n\n")
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		return err
	}
	for i := range tokens {
		if i == tokens/2 && does == "breaks" {
			panic(http.ErrAbortHandler)
		}
		if i == tokens/2 && does == "waits" {
			u.wait(r)
		}
		u.spend(r, 1)
		if chunk(`{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}],`+
			`"usage":null}`) != nil {
			return
		}
	}
	chunk(`{"id":"a","object":"chat.completion.chunk","choices":[],"usage":%s}`, usage)
	chunk("[DONE]")
}
