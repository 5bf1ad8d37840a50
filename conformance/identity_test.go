// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const (
	// callsPerAgent and agents are the numbers that the product promises.
	callsPerAgent = 50
	agents        = 50
	// variantAgents is how many there are where another edge goes the same way,
	// and processAgents how many of them are processes: each has a table of
	// requests to itself, so more of them cannot meet more often. With
	// OUTRIGGER_FULL=1 there are as many as everywhere; that takes minutes.
	variantAgents = 10
	processAgents = 6
	// slowEvery is how many calls there are to each that takes its time.
	slowEvery = 5
)

// echoed is the part of lab.echo's answer by which a caller knows that it is
// its own.
type echoed struct {
	Nonce, Signed, Unsigned, Payload string
}

// echoCall is call i of an agent, with a payload that no other call has.
func echoCall(edge caller.Edge, numeric bool, agent, i int) (caller.Call, echoed) {
	want := echoed{
		Nonce:  fmt.Sprintf("%s agent %d call %d", edge.Name, agent, i),
		Signed: strconv.Itoa(-1 - i), Unsigned: strconv.Itoa(1 + agent),
		Payload: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d", agent, i)),
	}
	id := strconv.Itoa(i)
	if !numeric {
		id = strconv.Quote("call-" + id)
	}
	if agent > 0 && i%slowEvery == 0 {
		// Sleeping calls of all agents are in flight together, whatever else is
		// going on, so equal ids do meet.
		return caller.Call{
			ID: id, Tool: toolSleep, Procedure: procSleep, Args: fmt.Sprintf(`{"duration":"0.3s","nonce":%q}`, want.Nonce),
		}, echoed{Nonce: want.Nonce}
	}
	args, _ := json.Marshal(want) // strings only
	return caller.Call{ID: id, Tool: toolEcho, Procedure: procEcho, Args: lower(args)}, want
}

// lower writes the member names as the service has them.
func lower(raw []byte) string {
	var m map[string]string
	_ = json.Unmarshal(raw, &m) // raw was written by echoCall
	out, _ := json.Marshal(map[string]string{
		"nonce": m["Nonce"], "signed": m["Signed"], "unsigned": m["Unsigned"], "payload": m["Payload"],
	})
	return string(out)
}

// TestEachAnswerReachesItsCaller lets one agent make 50 calls at once, and then
// 50 agents that all use the same 50 ids, over every edge.
func TestEachAnswerReachesItsCaller(t *testing.T) {
	t.Parallel()
	demo := peer.Demo(t)
	// Fifty agents make thousands of calls at once, and a machine that is busy with other tests needs seconds for them.
	args := []string{"--backend", demo.URL, "--max-calls", "16384", "--queue-wait", "60s"}
	server := serve(t, args...)
	for _, edge := range caller.Edges() {
		many := agents
		switch {
		case os.Getenv("OUTRIGGER_FULL") == "1":
		case edge.Process:
			many = processAgents
		case edge.Variant:
			many = variantAgents
		}
		t.Run(edge.Name, func(t *testing.T) {
			to := target(server, args...)
			for _, n := range []int{1, many} {
				t.Run(fmt.Sprintf("%d agents", n), func(t *testing.T) { manyCalls(t, edge, to, n) })
			}
		})
	}
}

// manyCalls lets n agents make the same calls at once.
func manyCalls(t *testing.T, edge caller.Edge, to caller.Target, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
	defer cancel()
	all := make([]caller.Agent, n)
	var dialling sync.WaitGroup
	for i := range all {
		dialling.Go(func() { all[i] = edge.Dial(t, to) })
	}
	dialling.Wait()
	if t.Failed() {
		t.FailNow()
	}
	var running sync.WaitGroup
	for i, agent := range all {
		running.Go(func() {
			defer agent.Close()
			calls := make([]caller.Call, callsPerAgent)
			wants := make([]echoed, callsPerAgent)
			for j := range calls {
				calls[j], wants[j] = echoCall(edge, edge.IDs == caller.AnyIDs, i, j)
			}
			for j, answer := range agent.CallAll(ctx, calls) {
				checkEcho(t, edge, calls[j], wants[j], answer)
			}
		})
	}
	running.Wait()
}

// checkEcho holds for the answer to one call of lab.echo.
func checkEcho(t *testing.T, edge caller.Edge, call caller.Call, want echoed, got caller.Answer) {
	t.Helper()
	switch {
	case got.Err != nil:
		t.Errorf("%s: %v", want.Nonce, got.Err)
		return
	case got.Fault != nil:
		t.Errorf("%s: %s: %s", want.Nonce, got.Fault.Code, got.Fault.Message)
		return
	case edge.IDs != caller.NoIDs && got.ID != call.ID:
		t.Errorf("%s: the answer has id %s, want %s", want.Nonce, got.ID, call.ID)
	}
	var data echoed
	if err := json.Unmarshal(got.Data, &data); err != nil {
		t.Errorf("%s: %v: %s", want.Nonce, err, got.Data)
		return
	}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Errorf("%s: another caller's answer (-want +got):\n%s", want.Nonce, diff)
	}
}
