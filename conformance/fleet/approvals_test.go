// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// approvalRules have two of a group approve payments.
const approvalRules = `
access:
  policy:
    rules:
      - {name: payments, tools: [shop.pay], effect: approve, when: "true", approve: {groups: [risk], count: 2, within: 1h}}
`

// desk asks the admin listener of a member as an operator.
func (m *member) desk(t *testing.T, operator, method, path, body string) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, m.AdminURL(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(operator))
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

func tokenOf(operator string) string { return operator + "-token-0123456789abcdef0123456789abcdef" }

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

// TestTwoPeopleApproveAfterAKill: the replica of the requester is killed while its call waits; two people approve at another one, and
// the call, which may not be repeated, runs once, at one that lives. One that is denied never runs.
func TestTwoPeopleApproveAfterAKill(t *testing.T) {
	t.Parallel()
	operators := "operators:\n"
	for _, name := range []string{"otto", "olga"} {
		sum := sha256.Sum256([]byte(tokenOf(name)))
		operators += fmt.Sprintf("  - {name: %s, token_sha256: [%s], role: operate, groups: [risk]}\n", name, hex.EncodeToString(sum[:]))
	}
	f := &fleet{
		nats: startNATS(t, nil), shop: startShop(t), keys: rig.KeyFile(t),
		config: rig.Write(t, "sidecar.yaml", []byte(fleetConfig+approvalRules+"listeners: {admin_tokens_file: "+rig.Write(t, "operators.yaml", []byte(operators))+"}\n")),
	}
	f.shop.letGo()
	for range 3 {
		f.start(t).Ready(t)
	}
	a, b, c := f.all[0], f.all[1], f.all[2]
	var paid, refused string
	testkit.Until(t, "a call waits", func() bool {
		out, err := a.call(t, "shop.pay", "paid")
		paid = out.GetTask().GetTaskId()
		return err == nil && paid != ""
	})
	refused = a.begin(t, "shop.pay", "refused")
	for _, m := range f.all {
		testkit.Until(t, "all know of both", func() bool { return len(m.waiting(t)) == 2 })
	}
	a.ExpectExit(-1)
	a.Signal(t, syscall.SIGKILL)
	a.Wait(t)
	for i, id := range b.waiting(t) {
		verb, isPaid := "approve", strings.Contains(must(b.desk(t, "otto", http.MethodGet, "/approvals/"+id, "")), "paid")
		if !isPaid {
			verb = "deny"
		}
		if status, text := b.desk(t, "otto", http.MethodPost, "/approvals/"+id+"/"+verb, `{"reason":"seen"}`); status != http.StatusOK {
			t.Fatalf("%d: %d %s", i, status, text)
		}
		if !isPaid {
			continue
		}
		if n := f.shop.count("Pay paid"); n != 0 {
			t.Fatalf("it ran %d times with one approval", n)
		}
		if status, _ := c.desk(t, "otto", http.MethodPost, "/approvals/"+id+"/approve", `{"reason":"again"}`); status == http.StatusOK {
			t.Error("one person approved twice")
		}
		if status, text := c.desk(t, "olga", http.MethodPost, "/approvals/"+id+"/approve", `{"reason":"seen, too"}`); status != http.StatusOK {
			t.Fatalf("%d: %d %s", i, status, text)
		}
	}
	if got := c.ends(t, paid); got.GetStatus() != completed || f.shop.count("Pay paid") != 1 {
		t.Errorf("ran %d times: %v", f.shop.count("Pay paid"), got)
	}
	if got := b.ends(t, refused); !strings.Contains(got.String(), "denied by otto: seen") || f.shop.count("Pay refused") != 0 {
		t.Errorf("ran %d times: %v", f.shop.count("Pay refused"), got)
	}
}

// must is the text of an answer.
func must(_ int, text string) string { return text }
