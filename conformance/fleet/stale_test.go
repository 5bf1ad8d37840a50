// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outrigger-mcp/outrigger/internal/state"
)

// TestAFormerLeaderKnowsNothing: a server that led before, and has not heard of its successor, answers before the leader does that a
// key does not exist. Nobody is told so.
func TestAFormerLeaderKnowsNothing(t *testing.T) {
	t.Parallel()
	all := startCluster(t)
	var urls []string
	for _, n := range all {
		urls = append(urls, n.URL())
	}
	c := open(t, state.Options{URL: strings.Join(urls, ","), Replicas: 3, Timeout: 5 * time.Second})
	b := c.Bucket(things())
	healthy(t, c)
	if _, err := b.Create(t.Context(), "here", []byte("value"), time.Hour); err != nil {
		t.Fatal(err)
	}
	// The subject on which the leader is asked leads to this server instead, while it answers.
	const asked, instead = "$JS.API.STREAM.MSG.GET.KV_outrigger_default_things", "former.leader"
	turn := func(aside bool) {
		for _, n := range all {
			account := n.running.GlobalAccount()
			if !aside {
				account.RemoveMapping(asked)
			} else if err := account.AddMapping(asked, instead); err != nil {
				t.Fatal(err)
			}
		}
	}
	var answered atomic.Int32
	nc, err := nats.Connect(all[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe(instead, func(m *nats.Msg) {
		if answered.Add(1) == 3 {
			turn(false)
		}
		_ = m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","error":{"code":404,"err_code":10037,"description":"no message found"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	turn(true)
	e, err := b.Get(t.Context(), "here")
	if err != nil || string(e.Value) != "value" {
		t.Errorf("got %q, %v", e.Value, err)
	}
	if got := answered.Load(); got < 3 {
		t.Errorf("the former leader was asked %d times", got)
	}
	if _, err := b.Get(t.Context(), "nowhere"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("what does not exist: %v", err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Get(cut, "nowhere"); !errors.Is(err, context.Canceled) {
		t.Errorf("by who has left: %v", err)
	}
}
