// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// older is a server of MCP 2025-11-25 alone: it refuses what has no session, in one of the ways that servers have, and ends a stream
// before the reply.
type older struct {
	refuse func(w http.ResponseWriter)

	mu   sync.Mutex
	seen []string
}

func (s *older) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m) // a GET and a DELETE have none
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+m.Method)
	s.mu.Unlock()
	switch {
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
	case r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-06-18":
		s.refuse(w)
	case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "e1":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\nid: e2\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"1\",\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n")
	case m.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"1\",\"progress\":9007199254740993}}\n\nretry: 1\n\n")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// TestOlderServers: a server that does not know the newest revision gets a session, whatever it says first, a stream that ends early is
// continued, and the session is ended.
func TestOlderServers(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(http.ResponseWriter){
		"text": func(w http.ResponseWriter) { http.Error(w, "Bad Request: no session", http.StatusBadRequest) },
		"error": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`)
		},
		"method": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"Method not found"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &older{refuse: refuse}
			c, err := client.Open(client.Options{URL: mcptest.Serve(t, server) + "/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			var told []client.Progress
			out, err := c.Call(t.Context(), &client.Call{Tool: "x", Progress: func(p client.Progress) { told = append(told, p) }})
			if err != nil || !slices.Equal(out.Texts, []string{"late"}) {
				t.Fatalf("%v, %v", out, err)
			}
			if want := []client.Progress{{Done: "9007199254740993"}}; !slices.Equal(told, want) {
				t.Errorf("progress %v, want %v", told, want)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			want := []string{"POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/call", "GET ", "DELETE "}
			if !slices.Equal(server.seen, want) {
				t.Errorf("it was sent %q, want %q", server.seen, want)
			}
		})
	}
}

// TestStrangeServers: whatever answers, the client says so with a canonical code, and sends a token nowhere else.
func TestStrangeServers(t *testing.T) {
	t.Parallel()
	other := mcptest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token went on to %s: %q", r.URL, r.Header.Get("Authorization"))
	}))
	rows := map[string]struct {
		handler http.HandlerFunc
		code    errmap.Code
	}{
		"a page":        {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, errmap.TransportError},
		"a redirect":    {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) }, errmap.TransportError},
		"broken JSON":   {answer(`{"jsonrpc":"2.0","id":"1","result":{`), errmap.TransportError},
		"two names":     {answer(`{"jsonrpc":"2.0","id":"1","result":{},"result":{}}`), errmap.TransportError},
		"deep":          {answer(strings.Repeat(`[`, 300) + strings.Repeat(`]`, 300)), errmap.TransportError},
		"no result":     {answer(`{"jsonrpc":"2.0","id":"1"}`), errmap.TransportError},
		"odd result":    {answer(`{"jsonrpc":"2.0","id":"1","result":7}`), errmap.TransportError},
		"unknown code":  {answer(`{"jsonrpc":"2.0","id":"1","error":{"code":-31999,"message":"no","data":{"code":"NEW_CODE"}}}`), "NEW_CODE"},
		"no credential": {func(w http.ResponseWriter, _ *http.Request) { refused(w) }, errmap.Unauthenticated},
		"an endless stream": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			block := []byte("data: " + strings.Repeat("x", 1<<20) + "\n")
			for r.Context().Err() == nil {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, errmap.TransportError},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := mcptest.Serve(t, row.handler)
			c, err := client.Open(client.Options{URL: base + "/rpc", Token: secret})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(t.Context()) }()
			_, err = c.Call(t.Context(), &client.Call{Tool: "x"})
			var told *client.Error
			if !errors.As(err, &told) || told.Code != row.code || strings.Contains(told.Text, "secret") {
				t.Errorf("%v, want %s", err, row.code)
			}
		})
	}
}

// TestATokenThatChanges: each request has the token of its time, on every kind of edge.
func TestATokenThatChanges(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/rpc", "/mcp"} {
		seen := make(chan string, 16)
		base := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Authorization")
			refused(w)
		}))
		n := 0
		c, err := client.Open(client.Options{URL: base + path, Token: func() string { n++; return fmt.Sprint(n) }})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := c.Tool(t.Context(), "x"); err == nil {
				t.Error("no error")
			}
		}
		if err := c.Close(t.Context()); err != nil || len(seen) < 2 || n != len(seen) {
			t.Errorf("%s: %v, %d requests, %d tokens", path, err, len(seen), n)
		}
		for i := range len(seen) {
			if got := <-seen; got != fmt.Sprintf("Bearer %d", i+1) {
				t.Errorf("%s: request %d has %q", path, i, got)
			}
		}
	}
}

func secret() string { return "secret" }

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
}

func refused(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"who are you?"}}`)
}

// polled is a client whose task has a list of states.
type polled struct {
	client.Client

	states []*client.Task
	// fails are the errors of the requests about the task, nil for none, and answerFails those of the answers to its questions.
	fails, answerFails []error
	asked              []time.Duration
	start              time.Time
	// answers counts those that the task got; refuses: the user cannot be asked.
	answers int
	refuses bool
}

func (p *polled) AnswerTask(context.Context, *client.Task) error {
	if p.refuses {
		return client.Canonical(errmap.New(errmap.MissingClientCapability))
	}
	if err := next(&p.answerFails); err != nil {
		return err
	}
	p.answers++
	return nil
}

// next takes the first of a list of errors; nil where there is none.
func next(errs *[]error) (err error) {
	if len(*errs) > 0 {
		err, *errs = (*errs)[0], (*errs)[1:]
	}
	return err
}

func (p *polled) Task(ctx context.Context, _ string) (*client.Task, error) {
	p.asked = append(p.asked, time.Since(p.start))
	if err := next(&p.fails); err != nil {
		return nil, err
	}
	now := p.states[0]
	if len(p.states) > 1 {
		p.states = p.states[1:]
	}
	return now, ctx.Err()
}

// TestWait: a task is asked for as often as its sidecar suggests, within bounds, and more and more rarely if it suggests nothing.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		working := func(poll time.Duration) *client.Task { return &client.Task{Status: "working", Poll: poll} }
		p := &polled{start: time.Now(), states: []*client.Task{
			working(0), working(0), working(2 * time.Second), working(time.Hour), working(time.Nanosecond), {Status: "completed"},
		}}
		seen := 0
		if _, err := client.Wait(t.Context(), p, "x", client.Watcher{Seen: func(*client.Task) { seen++ }}); err != nil || seen != 5 {
			t.Errorf("%d states, %v", seen, err)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 250 * ms, 750 * ms, 2750 * ms, 32750 * ms, 32850 * ms}; !slices.Equal(p.asked, want) {
			t.Errorf("asked at %v, want %v", p.asked, want)
		}
	})
}

// TestWaitAndTheUser: a task that asks its user goes on with the answer, one that asks for ever is an error, and so is a user who cannot
// be asked. One that does not end by its time is not ended.
func TestWaitAndTheUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told *client.Error
		asks := &client.Task{Status: "input_required"}
		for want, p := range map[errmap.Code]*polled{
			"":                             {states: []*client.Task{asks, asks, {Status: "completed"}}},
			errmap.ResourceExhausted:       {states: []*client.Task{asks}},
			errmap.MissingClientCapability: {states: []*client.Task{asks}, refuses: true},
		} {
			told = &client.Error{}
			if _, err := client.Wait(t.Context(), p, "x", client.Watcher{}); errors.As(err, &told) && told.Code != want || err == nil && (want != "" || p.answers != 2) {
				t.Errorf("want %q after a question: %v, %d answers", want, err, p.answers)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		endless := &polled{states: []*client.Task{{Status: "working"}}}
		if _, err := client.Wait(ctx, endless, "x", client.Watcher{}); !errors.As(err, &told) || told.Code != errmap.Timeout || !strings.Contains(told.Text, "goes on") {
			t.Errorf("out of time: %v", err)
		}
	})
}

// TestWaitForASidecarThatIsAway: one that restarts, drains or limits the caller is asked again, for a task and with the answers to its
// questions; any other error ends the wait. One that never answers is given up soon, and a wait that is over says that the task goes on.
func TestWaitForASidecarThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told *client.Error
		away := client.Canonical(errmap.New(errmap.Unavailable))
		limited := errmap.New(errmap.RateLimited)
		limited.RetryAfter = 20 * time.Second
		asks, done := &client.Task{Status: "input_required"}, &client.Task{Status: "completed"}
		p := &polled{
			start: time.Now(), states: []*client.Task{asks, done},
			fails: []error{nil, away, away, client.Canonical(limited)}, answerFails: []error{away},
		}
		reasons := 0
		watcher := client.Watcher{Away: func(*client.Error) { reasons++ }}
		if _, err := client.Wait(t.Context(), p, "x", watcher); err != nil || p.answers != 1 || reasons != 2 {
			t.Errorf("%v, %d answers, away for %d reasons", err, p.answers, reasons)
		}
		ms := time.Millisecond
		if want := []time.Duration{0, 500 * ms, 750 * ms, 1250 * ms, 21250 * ms}; !slices.Equal(p.asked, want) {
			t.Errorf("asked at %v, want %v", p.asked, want)
		}
		refused := client.Canonical(errmap.New(errmap.Unauthenticated))
		if _, err := client.Wait(t.Context(), &polled{fails: []error{refused}}, "x", watcher); !errors.As(err, &told) || told != refused {
			t.Errorf("refused: %v", err)
		}
		none, err := client.Open(client.Options{URL: "unix://" + t.TempDir() + "/none"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := client.Wait(t.Context(), none, "x", client.Watcher{}); !errors.As(err, &told) || told.Code != errmap.Unavailable || time.Since(began) > time.Minute {
			t.Errorf("never there: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := client.Wait(ctx, none, "x", client.Watcher{}); !errors.As(err, &told) || told.Code != errmap.Timeout || !strings.Contains(told.Text, "goes on") {
			t.Errorf("out of time: %v", err)
		}
	})
}
