package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sketchlimit/sketchlimit"
	"github.com/sketchlimit/sketchlimit/budget"
)

const minute, day = 100_000, 1_000_000

// TestMain is the proxy, too: TestKilled starts it as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("TOKENS_IS_PROXY") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// running is a proxy in this process.
type running struct {
	*testing.T
	b    *budget.Budget
	url  string
	stop func() // gracefully
}

func run(t *testing.T, u *upstream, snapshot string, minute int) *running {
	t.Helper()
	b, err := open(snapshot, minute, day)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	to, err := url.Parse(u.URL)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	save := func() error { return b.Save(snapshot) }
	go func() { ended <- serve(ctx, listener, newProxy(b, to, 500), save, time.Hour) }()
	p := &running{T: t, b: b, url: "http://" + listener.Addr().String()}
	p.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, b.Close())
	})
	t.Cleanup(p.stop)
	return p
}

// used returns the tokens of a day that an API key has used or holds.
func used(t *testing.T, b *budget.Budget, key string) int {
	t.Helper()
	sum := sha256.Sum256([]byte("Bearer " + key))
	each := make([]sketchlimit.Decision, 2)
	b.DoEach(sketchlimit.Request{Bytes: sum[:], Peek: true}, each)
	return day - each[1].Remaining
}

// user is a client of the API's own library.
type user struct {
	openai.Client
	sent int // bytes of the last request
}

func newUser(url, key string, options ...option.RequestOption) *user {
	u := new(user)
	u.Client = openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(url + "/v1"), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			u.sent = int(r.ContentLength)
			return next(r)
		}),
	}, options...)...)
	return u
}

// ask asks a model in three words.
func ask(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:               model,
		Messages:            []openai.ChatCompletionMessageParamUnion{openai.UserMessage("how are you?")},
		MaxCompletionTokens: openai.Int(100),
	}
}

// read reads a stream: it returns its text, and the usage that came with it.
func (u *user) read(ctx context.Context, q openai.ChatCompletionNewParams) (text string, usage int64, err error) {
	stream := u.Chat.Completions.NewStreaming(ctx, q)
	defer stream.Close()
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text += c.Delta.Content
		}
		usage += stream.Current().Usage.TotalTokens
	}
	return text, usage, stream.Err()
}

// status returns that of an error of the API.
func status(err error) int {
	if failed := (*openai.Error)(nil); errors.As(err, &failed) {
		return failed.StatusCode
	}
	return 0
}

// Users who stream and who do not, at the same time, one of whom is limited: after a
// restart the books agree with the upstream to the token.
func TestBooksAgree(t *testing.T) {
	u, snapshot := newUpstream(t), filepath.Join(t.TempDir(), "tokens")
	p := run(t, u, snapshot, 2000)
	var users sync.WaitGroup
	for i := range 6 {
		users.Go(func() {
			client := newUser(p.url, fmt.Sprint("user-", i%3))
			for n := range 20 {
				q := ask(fmt.Sprintf("%d-words", 10+n))
				if i%3 == 0 {
					q.Model = fmt.Sprintf("%d-words", 90+n) // of 100 at the most
				}
				if n%2 == 0 {
					text, _, err := client.read(t.Context(), q)
					assert.True(t, err == nil && text != "" || status(err) == http.StatusTooManyRequests, "%v", err)
				} else {
					_, err := client.Chat.Completions.New(t.Context(), q)
					assert.True(t, err == nil || status(err) == http.StatusTooManyRequests, "%v", err)
				}
			}
		})
	}
	users.Wait()
	for range 2 {
		p.stop()
		p = run(t, u, snapshot, 2000)
		for i := range 3 {
			key := fmt.Sprint("user-", i)
			tokens, requests := u.spent(key)
			require.Equal(t, tokens, used(t, p.b, key), key)
			require.LessOrEqual(t, tokens, 2000)
			require.Less(t, requests, 120, "the first user is refused")
		}
	}
}

// A stream is that of the upstream, with its usage only for those who ask.
func TestUsageIsForThoseWhoAsk(t *testing.T) {
	u := newUpstream(t)
	p := run(t, u, filepath.Join(t.TempDir(), "tokens"), minute)
	client := newUser(p.url, "ann")
	q := ask("5-words")
	text, usage, err := client.read(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("word ", 5), text)
	require.Zero(t, usage)
	q.StreamOptions.IncludeUsage = openai.Bool(true)
	_, usage, err = client.read(t.Context(), q)
	require.NoError(t, err)
	require.EqualValues(t, 8, usage)
	answer, err := client.Chat.Completions.New(t.Context(), ask("5-words"))
	require.NoError(t, err)
	require.EqualValues(t, 8, answer.Usage.TotalTokens)
	require.Equal(t, strings.Repeat("word ", 5), answer.Choices[0].Message.Content)
	p.stop()
	require.EqualValues(t, 24, used(t, p.b, "ann"))
	require.Zero(t, used(t, p.b, "bob"))
}

// A request that does not fit is refused before the upstream sees it, and passes when
// the client comes again.
func TestRefusal(t *testing.T) {
	u := newUpstream(t)
	p := run(t, u, filepath.Join(t.TempDir(), "tokens"), 300)
	ended := make(chan error, 1)
	go func() {
		_, err := newUser(p.url, "ann").Chat.Completions.New(t.Context(), ask("5-waits"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return used(t, p.b, "ann") > 0 }, time.Minute, time.Millisecond)
	_, err := newUser(p.url, "ann").Chat.Completions.New(t.Context(), ask("5-words"))
	require.Equal(t, http.StatusTooManyRequests, status(err))
	var failed *openai.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, []string{"1", "2"}, failed.Response.Header.Get("Retry-After"), "while holds are in the way")
	_, requests := u.spent("ann")
	require.LessOrEqual(t, requests, 1)

	_, err = newUser(p.url, "bob").Chat.Completions.New(t.Context(), ask("5-words"))
	require.NoError(t, err, "another user")
	close(u.release)
	require.NoError(t, <-ended)
	_, err = newUser(p.url, "ann").Chat.Completions.New(t.Context(), ask("5-words"))
	require.NoError(t, err, "what was not used is free again")
	q := ask("5-words")
	q.MaxCompletionTokens = openai.Int(1 << 40)
	_, err = newUser(p.url, "ann").Chat.Completions.New(t.Context(), q)
	require.ErrorAs(t, err, &failed)
	require.Empty(t, failed.Response.Header.Get("Retry-After"), "it never fits")
	p.stop()
	require.Equal(t, 16, used(t, p.b, "ann"))
}

// Where an answer does not tell what it has used, as much is settled as is known, and
// never less than was used.
func TestEndsInTheMidst(t *testing.T) {
	const prompt, deltas = 3, 10 * len(`{"content":"word "}`)
	u, snapshot := newUpstream(t), filepath.Join(t.TempDir(), "tokens")
	p := run(t, u, snapshot, minute)
	for _, c := range []struct {
		model   string
		stream  bool
		settled func(sent int) int
	}{
		{"20-breaks", true, func(sent int) int { return min(sent+deltas, sent+100) }},
		{"200-breaks", true, func(sent int) int { return sent + 100 }}, // what was held
		{"1-breaks", true, func(sent int) int { return sent + 100 }},   // nothing was seen
		{"20-hides", true, func(sent int) int { return sent + 100 }},
		{"3-hides", true, func(sent int) int { return sent + 3*len(`{"content":"word "}`) }},
		{"20-hides", false, func(sent int) int { return sent + 100 }},
		{"20-dies", true, func(sent int) int { return sent + 100 }},
		{"20-dies", false, func(sent int) int { return sent + 100 }},
		{"20-fails", true, func(int) int { return 0 }},
		{"20-fails", false, func(int) int { return 0 }},
	} {
		key := fmt.Sprint(c.model, c.stream)
		client := newUser(p.url, key)
		if c.stream {
			client.read(t.Context(), ask(c.model))
		} else {
			client.Chat.Completions.New(t.Context(), ask(c.model))
		}
		require.Eventually(t, func() bool { return p.b.Stats().Open == 0 }, time.Minute, time.Millisecond)
		require.Equal(t, c.settled(client.sent), used(t, p.b, key), key)
		tokens, _ := u.spent(key)
		require.GreaterOrEqual(t, used(t, p.b, key), tokens)
	}

	// A client that goes in the midst of a stream.
	client := newUser(p.url, "gone")
	ctx, cancel := context.WithCancel(t.Context())
	stream := client.Chat.Completions.NewStreaming(ctx, ask("20-waits"))
	for range 10 {
		require.True(t, stream.Next())
	}
	require.Equal(t, client.sent+100, used(t, p.b, "gone"))
	cancel()
	require.False(t, stream.Next())
	require.Eventually(t, func() bool { return p.b.Stats().Open == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, min(client.sent+deltas, client.sent+100), used(t, p.b, "gone"))
	require.GreaterOrEqual(t, used(t, p.b, "gone"), prompt+10)

	// An upstream that cannot be reached costs nothing.
	u.Server.Close()
	_, err := newUser(p.url, "nowhere").Chat.Completions.New(t.Context(), ask("1-words"))
	require.Equal(t, http.StatusBadGateway, status(err))
	require.Zero(t, used(t, p.b, "nowhere"))
}

// The proxy is killed. What was settled before its last snapshot counts as it was
// settled, and what was open in full.
func TestKilled(t *testing.T) {
	u, state := newUpstream(t), t.TempDir()
	snapshot := filepath.Join(state, "tokens")
	process := exec.Command(os.Args[0], "-address", "localhost:0", "-upstream", u.URL, "-state", state, "-every", "5ms",
		"-minute", fmt.Sprint(minute), "-day", fmt.Sprint(day))
	process.Env, process.Stderr = append(os.Environ(), "TOKENS_IS_PROXY=1"), os.Stderr
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	defer process.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address := "http://" + strings.TrimPrefix(strings.TrimSpace(line), "listening on ")

	client := newUser(address, "ann")
	for range 5 {
		_, _, err := client.read(t.Context(), ask("20-words"))
		require.NoError(t, err)
	}
	held := 0
	for range 3 {
		stream := client.Chat.Completions.NewStreaming(t.Context(), ask("20-waits"))
		require.True(t, stream.Next())
		defer stream.Close()
		held += client.sent + 100
	}
	for saved, last := 0, time.Now(); saved < 3; time.Sleep(time.Millisecond) { // one has begun since
		if file, err := os.Stat(snapshot); err == nil && file.ModTime() != last {
			saved, last = saved+1, file.ModTime()
		}
	}
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())

	for range 2 {
		p := run(t, u, snapshot, minute)
		require.Equal(t, 5*23+held, used(t, p.b, "ann"))
		require.Zero(t, p.b.Stats().Open)
		p.stop()
	}
}

// What a client says in another way than the upstream reads it is not read.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		body, sent string
		generate   int
	}{
		{`{}`, `{"max_completion_tokens":500}`, 500},
		{`{"max_tokens":null,"n":2}`, `{"max_completion_tokens":500,"max_tokens":null,"n":2}`, 1000},
		{`{"max_tokens":7}`, `{"max_tokens":7}`, 7},
		{`{"MAX_TOKENS":7}`, `{"MAX_TOKENS":7,"max_completion_tokens":500}`, 500},
		{`{"max_tokens":9,"max_tokens":7}`, `{"max_tokens":7}`, 7},
		{`{"max_tokens":7,"max_completion_tokens":9,"n":3}`, `{"max_completion_tokens":9,"max_tokens":7,"n":3}`, 27},
		{`{"max_tokens":0}`, `{"max_completion_tokens":500,"max_tokens":0}`, 500},
		{`{"max_tokens":1,"stream":true}`, `{"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`, 1},
		{`{"max_tokens":1,"stream":true,"stream_options":{"a":[1.50],"include_usage":false}}`,
			`{"max_tokens":1,"stream":true,"stream_options":{"a":[1.50],"include_usage":true}}`, 1},
		{`{"max_tokens":4611686018427387905,"n":4}`, `{"max_tokens":4611686018427387905,"n":4}`, 4 * (1<<31 - 1)},
	} {
		sent, prepared, err := prepare([]byte(c.body), 500)
		require.NoError(t, err, c.body)
		require.Equal(t, c.sent, string(sent))
		require.Equal(t, c.generate, prepared.generate, c.body)
		require.Equal(t, len(c.body), prepared.prompt)
	}
	for _, body := range []string{
		"", "null", "[]", `{"max_tokens":"7"}`, `{"max_tokens":1.5}`, `{"max_tokens":-1,"max_completion_tokens":7}`,
		`{"n":[]}`, `{"stream":1}`, `{} {}`,
	} {
		_, _, err := prepare([]byte(body), 500)
		require.Error(t, err, body)
	}
}

// A user is one, however the API key is written; and there is nothing that nobody limits.
func TestKeysAndPaths(t *testing.T) {
	u := newUpstream(t)
	p := run(t, u, filepath.Join(t.TempDir(), "tokens"), minute)
	for _, c := range []struct {
		path, authorization, body string
		want                      int
	}{
		{"/v1/chat/completions", "Bearer ann", `{"model":"5-words"}`, 200},
		{"/v1/chat/completions", "bearer   ann ", `{"model":"5-words"}`, 200},
		{"/v1/chat/completions", "Bearer ann", `{`, 400},
		{"/v1/chat/completions", "Bearer", `{}`, 401},
		{"/v1/chat/completions", "", `{}`, 401},
		{"/v1/completions", "Bearer ann", `{}`, 404},
	} {
		r, err := http.NewRequest("POST", p.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		r.Header.Set("Authorization", c.authorization)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, c.want, answer.StatusCode)
	}
	p.stop()
	tokens, _ := u.spent("ann")
	require.Equal(t, 10, tokens)
	require.Equal(t, tokens, used(t, p.b, "ann"))
}
