// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// piped is a reply as far as the test looks at it.
type piped struct {
	ID     json.RawMessage `json:"id"`
	Error  json.RawMessage `json:"error"`
	Result struct {
		IsError bool `json:"isError"`
	} `json:"result"`
}

// TestStdioPushesBack pipes more calls into the sidecar than any of its limits
// admits at a time, and wants each to succeed: a pipe has flow control.
func TestStdioPushesBack(t *testing.T) {
	t.Parallel()
	const modern = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	echo := func(more string) func(int) string {
		return func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"n"}%s}}`, i, more)
		}
	}
	sleep := func(i int) string { return fmt.Sprintf(sleeper, i, "0.02s") }
	limits := []string{"--max-pipelined", "64", "--max-calls", "8", "--max-queued", "1", "--queue-wait", "1ms", "--max-in-flight", "16", "--max-stdio-queue", "64KiB"}
	for name, tc := range map[string]struct {
		calls int
		call  func(int) string
		// every is what the reader takes between two replies.
		every time.Duration
	}{
		"canonical":     {calls: 2_000, call: echo("")},
		"modern":        {calls: 2_000, call: echo(modern)},
		"a slow tool":   {calls: 2_000, call: sleep},
		"a slow reader": {calls: 2_000, call: echo(""), every: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, client := io.Pipe()
			answers, out := io.Pipe()
			ended := make(chan int, 1)
			go func() {
				ended <- run(t.Context(), append([]string{"stdio", "--demo", "--log-level", "error"}, limits...), in, out, io.Discard, nil)
				_ = out.Close()
			}()
			var sent atomic.Int64
			go func() {
				w := bufio.NewWriter(client)
				for i := range tc.calls {
					_, _ = fmt.Fprintf(w, "%-1024s\n", tc.call(i)) // so that buffers hold few
					_ = w.Flush()
					sent.Add(1)
				}
				_ = client.Close()
			}()
			lines := bufio.NewScanner(answers)
			ids, ahead := map[string]bool{}, 0
			for lines.Scan() {
				var got piped
				if err := json.Unmarshal(lines.Bytes(), &got); err != nil || got.Error != nil || got.Result.IsError {
					t.Fatalf("%v: %s", err, lines.Bytes())
				}
				ids[string(got.ID)] = true
				ahead = max(ahead, int(sent.Load())-len(ids))
				if tc.every > 0 {
					timer := time.NewTimer(tc.every)
					<-timer.C
				}
			}
			if code := <-ended; code != exitOK || len(ids) != tc.calls {
				t.Errorf("%d of %d calls were answered, exit code %d", len(ids), tc.calls, code)
			}
			if ahead > tc.calls/2 {
				t.Errorf("the client was %d calls ahead of the answers", ahead)
			}
		})
	}
}
