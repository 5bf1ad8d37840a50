// SPDX-License-Identifier: Apache-2.0

package saturation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAClientJudgesAnswers: only the result of this very call is one.
func TestAClientJudgesAnswers(t *testing.T) {
	t.Parallel()
	c := echoCall("", "", 3).client(7)
	c.next()
	id, nonce := string(c.id), string(c.nonce)
	for name, row := range map[string]struct {
		status int
		body   string
		want   outcome
		wrong  bool
	}{
		"its result":          {200, `{"id":"` + id + `","result":{"structuredContent":{"nonce":"` + nonce + `"}}}`, answered, false},
		"another's nonce":     {200, `{"id":"` + id + `","result":{"structuredContent":{"nonce":"00-00"}}}`, failed, true},
		"another's id":        {200, `{"id":"9","result":{"structuredContent":{"nonce":"` + nonce + `"}}}`, failed, true},
		"another's rejection": {503, `{"id":"9","error":{"data":{"code":"UNAVAILABLE"}}}`, failed, true},
		"a rejection":         {503, `{"id":"` + id + `","error":{"data":{"code":"UNAVAILABLE"}}}`, rejected, false},
		"one without an id":   {503, `{"error":{"data":{"code":"UNAVAILABLE"}}}`, rejected, false},
		"an empty one":        {503, ``, rejected, false},
		"a tool's error":      {200, `{"id":"` + id + `","result":{"isError":true,"code":"NOT_FOUND"}}`, toolError, false},
		"a wrong request":     {400, `{"id":"` + id + `","error":{"data":{"code":"INVALID_ENVELOPE"}}}`, failed, true},
	} {
		got, err := c.judge(row.status, []byte(row.body))
		if got != row.want || errors.Is(err, ErrWrongAnswer) != row.wrong {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// serve answers each request with what answer makes of its body.
func serve(t *testing.T, answer func(body string) string) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, answer(string(raw)))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return listener.Addr().String()
}

// echoed is the result of a call of Echo.
func echoed(body string) string {
	_, id, _ := strings.Cut(body, `"id":"`)
	_, nonce, _ := strings.Cut(body, `"nonce":"`)
	return fmt.Sprintf(`{"id":"%s","result":{"structuredContent":{"nonce":"%s"}}}`, id[:idLength], nonce[:nonceLength])
}

// TestLoopsCountWhatIsAnswered in both kinds of loops.
func TestLoopsCountWhatIsAnswered(t *testing.T) {
	t.Parallel()
	m := echoCall(serve(t, echoed), "", 3)
	w := window{warmup: 10 * time.Millisecond, length: 200 * time.Millisecond}
	for name, measure := range map[string]func([]*client) (*Sample, error){
		"closed": func(c []*client) (*Sample, error) { return closed(t.Context(), c, w) },
		"open":   func(c []*client) (*Sample, error) { return open(t.Context(), c, 200, w) },
	} {
		clients := []*client{m.client(0), m.client(1), m.client(2), m.client(3)}
		sample, err := measure(clients)
		closeAll(clients)
		if err != nil || sample.Answered == 0 || sample.Rejected+sample.Errors+sample.Failed != 0 || len(sample.latencies) != sample.Answered {
			t.Errorf("%s: %+v, %v", name, sample, err)
		}
	}
}

// TestAWrongAnswerEndsTheRun of all clients.
func TestAWrongAnswerEndsTheRun(t *testing.T) {
	t.Parallel()
	m := echoCall(serve(t, func(string) string { return `{"id":"other"}` }), "", 3)
	clients := []*client{m.client(0), m.client(1)}
	defer closeAll(clients)
	if _, err := closed(t.Context(), clients, window{length: time.Minute}); !errors.Is(err, ErrWrongAnswer) {
		t.Errorf("%v", err)
	}
}

// TestARequestIsComplete: a server reads it to its end, with id and nonce.
func TestARequestIsComplete(t *testing.T) {
	t.Parallel()
	proxied, err := proxyCall("host", 30)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*message{echoCall("host", "secret-of-a-caller", 30), toolCall("host", "lab_sleep", "", `,"duration":"2s"`), proxied} {
		ours, theirs := net.Pipe()
		c := m.client(3)
		c.conn, c.in = ours, bufio.NewReader(ours)
		go func() { _, _ = c.call(context.Background()); _ = ours.Close() }()
		r, err := http.ReadRequest(bufio.NewReader(theirs))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), "0000000000003-0000000001") {
			t.Errorf("%q, %v", body, err)
		}
		_ = theirs.Close()
	}
}
