// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// output is a journal's destination that tests read while it grows.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) lines(t *testing.T) []line {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []line
	for text := range bytes.Lines(o.text.Bytes()) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		out = append(out, l)
	}
	return out
}

// await returns the first line of an event.
func (o *output) await(t *testing.T, event string) line {
	t.Helper()
	var found line
	testkit.Try(t, "a line says "+event, func() error {
		lines := o.lines(t)
		i := slices.IndexFunc(lines, func(l line) bool { return l.Event == event })
		if i < 0 {
			return fmt.Errorf("%v", lines)
		}
		found = lines[i]
		return nil
	})
	return found
}

// TestServe calls the service over gRPC on a port and on a socket, and ends it in
// the middle of a call: the call is answered, and every execution has left its
// two lines.
func TestServe(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"port": "127.0.0.1:0", "socket": "unix://" + filepath.Join(t.TempDir(), "app.sock")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			out := &output{}
			ended := make(chan error, 1)
			go func() { ended <- serve(ctx, options{listen: address, grace: 20 * time.Second}, newJournal(out)) }()
			at := out.await(t, "listening").Address
			network := map[bool]string{true: "unix", false: "tcp"}[name == "socket"]
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, at)
			}}
			defer transport.CloseIdleConnections()
			lab := demov1connect.NewLabClient(&http.Client{Transport: transport}, "http://app", connect.WithGRPC())
			answer := make(chan error, 1)
			go func() {
				req := connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(500 * time.Millisecond), Nonce: "n"})
				req.Header().Set("X-Request-Id", "id-1")
				res, err := lab.Sleep(t.Context(), req)
				if err == nil && res.Msg.GetNonce() != "n" {
					t.Errorf("the answer is to %q", res.Msg.GetNonce())
				}
				answer <- err
			}()
			if l := out.await(t, "begin"); l.RequestID != "id-1" || l.Procedure != "/outrigger.demo.v1.Lab/Sleep" {
				t.Errorf("the call's line is %+v", l)
			}
			stop()
			if err := <-answer; err != nil {
				t.Errorf("the call in flight: %v", err)
			}
			transport.CloseIdleConnections()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			out.await(t, "end")
			out.await(t, "ended")
		})
	}
}

// TestEndsBeforeItListens ends a slow start.
func TestEndsBeforeItListens(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := serve(ctx, options{listen: "127.0.0.1:0", delay: time.Hour}, newJournal(&output{})); err != nil {
		t.Error(err)
	}
}

// TestFlags has what cannot be served. Each says why.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-h"}, 0, "Usage"},
		{[]string{"-listne", "x"}, 2, "flag provided but not defined"},
		{[]string{"more"}, 2, "takes no arguments"},
		{[]string{"-listen", "0.0.0.0:0"}, 1, "is not a loopback address"},
		{[]string{"-listen", "nowhere"}, 1, "write host:port or unix:///path"},
		{[]string{"-listen", "unix:///does/not/exist.sock"}, 1, "-listen"},
	} {
		var stderr bytes.Buffer
		if code := run(tc.args, &output{}, &stderr); code != tc.code || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%q: code %d and %q, want %d and %q", tc.args, code, stderr.String(), tc.code, tc.want)
		}
	}
}
