// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// refunds is fleet.v1.Shop with a tool that may not be repeated.
const refunds = `file { name: "fleet/v1/shop.proto" package: "fleet.v1" syntax: "proto3"
message_type { name: "RefundRequest"
  field { name: "order" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "order" }
  field { name: "amount" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL json_name: "amount" } }
message_type { name: "RefundResponse" field { name: "receipt" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "receipt" } }
service { name: "Shop" method { name: "Refund" input_type: ".fleet.v1.RefundRequest" output_type: ".fleet.v1.RefundResponse" } } }`

// refundRules have two of a group approve large refunds.
const refundRules = `access:
  policy:
    rules:
      - name: large-refunds
        tools: [shop.refund]
        effect: approve
        when: args.amount > 100
        approve: {groups: [risk], count: 2, within: 8h}
`

// desk asks the admin listener of a member as an operator.
func (m *member) desk(t *testing.T, operator, method, path, body string) (status int, text string) {
	t.Helper()
	return ask(t, method, m.AdminURL(path), operator, nil, body)
}

// waiting returns the calls that wait, as a member knows them.
func (m *member) waiting(t *testing.T) (ids []string) {
	t.Helper()
	status, text := m.desk(t, "otto", http.MethodGet, "/approvals", "")
	var list struct{ Approvals []struct{ ID string } }
	if status != http.StatusOK || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	for _, one := range list.Approvals {
		ids = append(ids, one.ID)
	}
	return ids
}

// refund calls the tool as the agent.
func (m *member) refund(t *testing.T, arguments, capabilities string) (text string) {
	t.Helper()
	_, text = askMCP(t, m.Server, "agent", "tools/call", "shop_refund", `"name":"shop_refund","arguments":`+arguments+`,`, capabilities)
	return text
}

// endOf waits until a task of the agent has ended.
func (m *member) endOf(t *testing.T, id string) (text string) {
	t.Helper()
	testkit.Until(t, "the task ends", func() bool {
		_, text = askMCP(t, m.Server, "agent", "tasks/get", id, `"taskId":"`+id+`",`, withTasks)
		return taskIn(text) != "" && !strings.Contains(text, `"status":"working"`)
	})
	return text
}

// taskIn is the id of the task that an answer has; empty where it has none.
func taskIn(text string) string {
	var out struct{ Result struct{ TaskID string } }
	_ = json.Unmarshal([]byte(text), &out)
	return out.Result.TaskID
}

// startRefunds starts three replicas in front of a shop that refunds.
func startRefunds(t *testing.T) *fleet {
	t.Helper()
	set := new(descriptorpb.FileDescriptorSet)
	if err := prototext.Unmarshal([]byte(refunds), set); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	operators := "operators:\n"
	for _, name := range []string{"otto", "olga"} {
		operators += fmt.Sprintf("  - {name: %s, token_sha256: [%x], role: operate, groups: [risk]}\n", name, sha256.Sum256([]byte(tokenOf(name))))
	}
	f := &fleet{nats: startNATS(t, nil), shop: startShop(t), keys: rig.KeyFile(t)}
	f.shop.descriptors = rig.Write(t, "shop.binpb", raw)
	f.config = rig.Write(t, "sidecar.yaml", []byte("state: {lease: 2s}\nlisteners: {admin_tokens_file: "+rig.Write(t, "operators.yaml", []byte(operators))+"}\n"+
		refundRules+"  tokens_file: "+callersFile(t, "shop.refund", "agent")+"\n"))
	f.shop.letGo()
	for range 3 {
		f.start(t).Ready(t)
	}
	return f
}

// TestTwoPeopleApproveAfterAKill: the replica of the requester is killed while its call waits; two people approve at other ones, and
// the call, which may not be repeated, runs once, at one that lives. One that is denied never runs. docs/conversations.md has what they say.
func TestTwoPeopleApproveAfterAKill(t *testing.T) {
	t.Parallel()
	const paidArgs, refusedArgs = `{"order":"4711","amount":250}`, `{"order":"4712","amount":900}`
	f := startRefunds(t)
	a, b, c := f.all[0], f.all[1], f.all[2]
	var first string
	testkit.Until(t, "a call waits", func() bool {
		first = a.refund(t, paidArgs, withTasks)
		return taskIn(first) != ""
	})
	again, refused := a.refund(t, paidArgs, ""), taskIn(a.refund(t, refusedArgs, withTasks))
	for _, m := range f.all {
		testkit.Until(t, "all know of both", func() bool { return len(m.waiting(t)) == 2 })
	}
	a.ExpectExit(-1)
	a.Signal(t, syscall.SIGKILL)
	a.Wait(t)

	var id, shown, denied string
	for _, one := range b.waiting(t) {
		if _, text := b.desk(t, "otto", http.MethodGet, "/approvals/"+one, ""); strings.Contains(text, "4711") {
			id, shown = one, text
		} else {
			denied = one
		}
	}
	if status, text := b.desk(t, "otto", http.MethodPost, "/approvals/"+denied+"/deny", `{"reason":"seen"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	const path, seen, ledger = "/approve", `{"reason":"the parcel came back"}`, `{"reason":"the ledger agrees"}`
	status, one := b.desk(t, "otto", http.MethodPost, "/approvals/"+id+path, seen)
	if n := f.shop.count("Refund 4711"); status != http.StatusOK || n != 0 {
		t.Fatalf("it ran %d times with one approval: %d %s", n, status, one)
	}
	twice, refusal := c.desk(t, "otto", http.MethodPost, "/approvals/"+id+path, seen)
	if twice != http.StatusForbidden {
		t.Errorf("one person approved twice: %d %s", twice, refusal)
	}
	status, two := c.desk(t, "olga", http.MethodPost, "/approvals/"+id+path, ledger)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, two)
	}
	ended := c.endOf(t, taskIn(first))
	if n := f.shop.count("Refund 4711"); n != 1 {
		t.Errorf("it ran %d times: %s", n, ended)
	}
	if got := b.endOf(t, refused); !strings.Contains(got, "denied by otto: seen") || f.shop.count("Refund 4712") != 0 {
		t.Errorf("it ran %d times: %s", f.shop.count("Refund 4712"), got)
	}

	r := &talk{stable: strings.NewReplacer(id, "APPROVAL", taskIn(first), "TASK")}
	r.writes("Three replicas, A, B and C, share state in NATS and this configuration. `otto` and `olga` are operators of the group `risk`.", "yaml", refundRules)
	call := "tools/call {\"name\": \"shop_refund\", \"arguments\": " + paidArgs + "}"
	r.answers(t, "`agent` at replica A, with tasks", call, first, "result", "taskId", "status", "statusMessage", "resultType")
	r.answers(t, "`agent` at replica A, without tasks. It is the same request, which is asked about once", call, again, "result",
		"content", "_meta dev.outrigger/error code", "_meta dev.outrigger/error retryAfterMs", "_meta dev.outrigger/error approval")
	r.writes("Replica A is killed (SIGKILL).", "", "")
	r.answers(t, "`otto` at the admin listener of replica B", "GET /approvals/APPROVAL", shown, "approval", "tool", "requester", "rule", "state", "needed", "arguments_json")
	r.answers(t, "`otto` at replica B", "POST /approvals/APPROVAL/approve "+seen, one, "approval", "state", "needed")
	r.answers(t, "`otto` once more, at replica C (403)", "POST /approvals/APPROVAL/approve "+seen, refusal, "", "error")
	r.answers(t, "`olga` at replica C", "POST /approvals/APPROVAL/approve "+ledger, two, "approval", "state", "needed", "decisions")
	r.answers(t, "`agent` at replica C", "tasks/get {\"taskId\": \"TASK\"}", ended, "result", "taskId", "status", "result structuredContent", "result isError")
	r.writes("The shop refunded once.", "", "")
	r.compare(t, "TestTwoPeopleApproveAfterAKill")
}
