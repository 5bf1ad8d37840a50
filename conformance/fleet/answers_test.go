// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// keyed calls a tool with an idempotency key, and returns what came of it as text.
func (m *member) keyed(ctx context.Context, tool, name, key string, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req := connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"` + name + `"}`)},
	})
	req.Header().Set("Idempotency-Key", key)
	resp, err := m.client.CallTool(ctx, req)
	var failed *connect.Error
	if errors.As(err, &failed) {
		return failed.Code().String() + ": " + failed.Message()
	}
	if err != nil {
		return err.Error()
	}
	return string(resp.Msg.GetResult().GetDataJson())
}

// TestAnswersKeepTheContract: answers in JetStream keep the contract that those in memory keep.
func TestAnswersKeepTheContract(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	var deployments atomic.Int64
	testkit.AnswersContract(t, func(t *testing.T) testkit.KeptAnswers {
		t.Helper()
		shared := configtest.Filled(t, &configv1.State{Url: n.URL(), Name: new(fmt.Sprintf("a%d", deployments.Add(1)))})
		c := open(t, state.Options{Config: shared})
		out := state.Kept{Bucket: c.Bucket(state.Answers(&configv1.Config{State: shared}))}
		healthy(t, c)
		return out
	})
}

// TestACallWithAKeyRunsOnce, whichever replicas it comes to, while one of them runs it and after.
func TestACallWithAKeyRunsOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	got := make(chan string, 2)
	go func() { got <- f.all[0].keyed(t.Context(), "shop.pay", "a", "k", testkit.Limit()) }()
	testkit.Until(t, "the call runs", func() bool { return f.shop.count("Pay a") == 1 })
	go func() { got <- f.all[1].keyed(t.Context(), "shop.pay", "a", "k", testkit.Limit()) }()
	if said := f.all[1].keyed(t.Context(), "shop.pay", "b", "k", testkit.Limit()); !strings.HasPrefix(said, "invalid_argument: ") {
		t.Errorf("with other arguments: %s", said)
	}
	f.shop.letGo()
	first, second := testkit.Receive(t, "an answer", got), testkit.Receive(t, "another answer", got)
	third := f.all[1].keyed(t.Context(), "shop.pay", "a", "k", testkit.Limit())
	if !strings.Contains(first, "result of Pay a") || second != first || third != first || f.shop.count("Pay a")+f.shop.count("Pay b") != 1 {
		t.Errorf("%s, %s, %s, and %d calls", first, second, third, f.shop.count("Pay a"))
	}
}

// TestTheReplicaOfACallWithAKeyIsKilled: what may run again does, and of the rest it is said that the outcome is unknown.
func TestTheReplicaOfACallWithAKeyIsKilled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	const short = 20 * time.Second
	for _, name := range []string{"pay", "look"} {
		go f.all[0].keyed(t.Context(), "shop."+name, "a", name, short)
	}
	testkit.Until(t, "the calls run", func() bool { return f.shop.count("Pay a") == 1 && f.shop.count("Look a") == 1 })
	f.all[0].ExpectExit(-1)
	f.all[0].Signal(t, syscall.SIGKILL)
	f.all[0].Wait(t)
	again := make(chan string, 1)
	go func() { again <- f.all[1].keyed(t.Context(), "shop.look", "a", "look", testkit.Limit()) }()
	if said := f.all[1].keyed(t.Context(), "shop.pay", "a", "pay", testkit.Limit()); !strings.Contains(said, "whether it had its effect is not known") {
		t.Errorf("pay: %s", said)
	}
	testkit.Until(t, "it runs again", func() bool { return f.shop.count("Look a") == 2 })
	f.shop.letGo()
	if said := testkit.Receive(t, "its answer", again); !strings.Contains(said, "result of Look a") || f.shop.count("Pay a") != 1 {
		t.Errorf("look: %s, and pay ran %d times", said, f.shop.count("Pay a"))
	}
}
