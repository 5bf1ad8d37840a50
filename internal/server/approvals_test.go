// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// hook is a webhook as it arrived, after its signature was found right.
type hook struct{ id, body string }

// hooks is an endpoint for webhooks with a secret, whose file it names.
func hooks(t *testing.T) (url, secretFile string, arrived chan hook) {
	t.Helper()
	key := bytes.Repeat([]byte("k"), 32)
	secretFile = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	arrived = make(chan hook, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := r.Header.Get("webhook-id")
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, r.Header.Get("webhook-timestamp"), body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("webhook-signature"), want)
		}
		arrived <- hook{id, string(body)}
	}))
	t.Cleanup(server.Close)
	return server.URL, secretFile, arrived
}

// TestTwoOperatorsApprove: a call waits, operators see of it what their classes show, webhooks and subscribers hear of it without
// arguments, and it runs once two operators approved, one by RPC and one over HTTP.
func TestTwoOperatorsApprove(t *testing.T) {
	t.Parallel()
	hookURL, secretFile, arrived := hooks(t)
	digest := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	operators := filepath.Join(t.TempDir(), "operators.yaml")
	if err := os.WriteFile(operators, []byte("operators:\n"+
		"- {name: olive, role: operate, groups: [desk], classes: [private], token_sha256: ['"+digest(oliveToken)+"']}\n"+
		"- {name: otto, role: operate, groups: [desk], token_sha256: ['"+digest(ottoToken)+"']}\n"+
		"- {name: rita, role: read, groups: [desk], token_sha256: ['"+digest(ritaToken)+"']}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Trust = proto.String("trusted")
		c.Listeners.AdminTokensFile = operators
		c.Access.Policy = &configv1.Policy{
			Rules: []*configv1.PolicyRule{{
				Name: "cancellations", Effect: "approve", Tools: []string{"fleet.cancel_order"}, When: "true",
				Approve: &configv1.PolicyApproval{Groups: []string{"desk"}, Count: 2},
			}},
			Classes: []*configv1.FieldClass{{Name: "private"}},
			Fields:  map[string]string{"outrigger.demo.v1.CancelOrderRequest.reason": "private"},
		}
		c.Access.Approvals.Webhooks = []*configv1.ApprovalWebhook{{Url: hookURL, SecretFile: secretFile}}
	}})
	main, operated := rig.Serve(t), rig.Operators(t)
	api := adminv1connect.NewAdminServiceClient(mcptest.Client(t, 1), operated)

	events, err := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 1), main).Subscribe(t.Context(), connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: []string{"notifications/approvals/*"}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	send := func(method, url, token, body string) (status int, answer string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := mcptest.Client(t, 1).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, bodyOf(t, resp)
	}
	post := func(url, token, body string) (status int, answer string) {
		return send(http.MethodPost, url, token, body)
	}
	testkit.Until(t, "the subscription begins", func() bool {
		_, page := send(http.MethodGet, operated+"/metrics", ritaToken, "")
		return strings.Contains(page, "outrigger_event_subscribers 1")
	})
	call := func() string {
		t.Helper()
		_, body := post(main+"/rpc", "", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"order_id":"1001","reason":"canary-moved"}}}`)
		return body
	}
	heard := func(kind, state string) (id string) {
		t.Helper()
		told := testkit.Receive(t, "a webhook", arrived)
		var news struct{ Type, ID, Tool, Rule, State string }
		if err := json.Unmarshal([]byte(told.body), &news); err != nil || news.Type != "approval."+kind || news.State != state || news.Tool != "fleet.cancel_order" ||
			news.Rule != "cancellations" || told.id != news.ID+"."+state {
			t.Errorf("webhook %s: %s", told.id, told.body)
		}
		if !events.Receive() {
			t.Fatal(events.Err())
		}
		n := events.Msg()
		if text := fmt.Sprint(n); n.GetMethod() != "notifications/approvals/"+kind || !strings.Contains(text, news.ID) || strings.Contains(text+told.body, "canary") {
			t.Errorf("event: %s", text)
		}
		return news.ID
	}

	if got := call(); !strings.Contains(got, "APPROVAL_REQUIRED") {
		t.Fatal(got)
	}
	id := heard("waiting", "waiting")
	ask := func(token string) *adminv1.Approval {
		t.Helper()
		req := connect.NewRequest(&adminv1.GetApprovalRequest{Id: id})
		req.Header().Set("Authorization", "Bearer "+token)
		out, err := api.GetApproval(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return out.Msg.GetApproval()
	}
	for _, tt := range []struct {
		token          string
		sees, mayMeans bool
	}{{oliveToken, true, true}, {ottoToken, false, true}, {ritaToken, false, false}} {
		got := ask(tt.token)
		if strings.Contains(got.GetArgumentsJson(), "canary") != tt.sees || !strings.Contains(got.GetArgumentsJson(), "1001") || got.GetMayDecide() != tt.mayMeans {
			t.Errorf("%s: %v", tt.token, got)
		}
	}
	if status, got := post(operated+"/approvals/"+id+"/approve", ritaToken, `{"reason":"seen"}`); status != http.StatusForbidden {
		t.Errorf("a reader: %d %s", status, got)
	}
	first := connect.NewRequest(&adminv1.DecideApprovalRequest{Id: id, Approve: true, Reason: "moved indeed"})
	first.Header().Set("Authorization", "Bearer "+oliveToken)
	if out, err := api.DecideApproval(t.Context(), first); err != nil || out.Msg.GetApproval().GetState() != "waiting" || len(out.Msg.GetApproval().GetDecisions()) != 1 {
		t.Errorf("the first: %v, %v", out, err)
	}
	if _, err := api.DecideApproval(t.Context(), first); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("the same operator twice: %v", err)
	}
	if status, got := post(operated+"/approvals/"+id+"/approve", ottoToken, `{"reason":"so be it"}`); status != http.StatusOK || !strings.Contains(got, `"state":"approved"`) || strings.Contains(got, "canary") {
		t.Errorf("the second: %d %s", status, got)
	}
	heard("decided", "approved")
	if got := call(); !strings.Contains(got, `"result"`) {
		t.Errorf("approved: %s", got)
	}
	if got := ask(oliveToken); got.GetState() != "done" || got.GetMayDecide() {
		t.Errorf("after the run: %v", got)
	}
}
