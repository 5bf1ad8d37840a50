// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// conversations is the page that has the conversations of these tests.
const conversations = "../../docs/conversations.md"

// supportPolicy hides and masks what only a clerk sees.
const supportPolicy = `classes:
  - {name: pii, callers: [clerk], otherwise: mask}
  - {name: address, callers: [clerk], otherwise: hide}
fields:
  outrigger.demo.v1.Order.customer: pii
  outrigger.demo.v1.Parcel.value_cents: pii
  outrigger.demo.v1.Destination.address: address
`

// TestAMaskedSupportAgent: a support agent lists and calls a tool whose result has fields that it may not see, and a clerk who may
// does the same. docs/conversations.md has what they say. It is not parallel, because -update has two tests write that page.
func TestAMaskedSupportAgent(t *testing.T) {
	const tool, arguments = "fleet_get_order", `{"orderId":"9007199254741005"}`
	s := sidecar.ServeReady(t, built.binary, "--demo", "--policy", rig.Write(t, "policy.yaml", []byte(supportPolicy)),
		"--tokens", callersFile(t, "fleet.get_order", "agent", "clerk"))
	r := &talk{stable: strings.NewReplacer()}
	r.writes("The orders are those of `sidecar serve --demo`, with this file for `--policy`:", "yaml", supportPolicy)
	for _, who := range []string{"agent", "clerk"} {
		_, list := askMCP(t, s, who, "tools/list", "", "", "")
		_, result := askMCP(t, s, who, "tools/call", tool, `"name":"`+tool+`","arguments":`+arguments+`,`, "")
		for _, secret := range []string{"Auntie Vai", "banyan", "23000"} {
			if isSeen := strings.Contains(result, secret); isSeen != (who == "clerk") {
				t.Errorf("%s sees %s: %v\n%s", who, secret, isSeen, result)
			}
		}
		if isListed := strings.Contains(list, `"island"`); isListed != (who == "clerk") {
			t.Errorf("%s is shown the address in the schema: %v\n%s", who, isListed, list)
		}
		r.answers(t, "`"+who+"`, properties of the output schema", "tools/list {}", list, "result tools 0 outputSchema properties", "customer", "destination properties address properties island type",
			"parcels items properties valueCents")
		r.answers(t, "`"+who+"`, structured content", `tools/call {"name": "`+tool+`", "arguments": `+arguments+`}`, result, "result structuredContent", "customer", "destination", "parcels")
		if who == "agent" {
			r.writes("The agent gets no address, and its schema has none. The clerk has both classes and asks the same.", "", "")
		}
	}
	r.compare(t, "TestAMaskedSupportAgent")
}

// talk is a conversation, as its page has it.
type talk struct {
	text strings.Builder
	// stable replaces what differs from run to run, beside times and handles.
	stable *strings.Replacer
}

// changing are the times and the handles in answers.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|v1\.[\w-]{40,}`)

// writes adds a sentence, and a block of a kind where there is one.
func (r *talk) writes(sentence, kind, block string) {
	r.text.WriteString(sentence + "\n\n")
	if kind != "" {
		r.text.WriteString("```" + kind + "\n" + strings.TrimSpace(block) + "\n```\n\n")
	}
}

// answers adds a request, and of its answer what is below root at these paths. Keys are separated by spaces. A path that the answer does not
// have adds nothing.
func (r *talk) answers(t *testing.T, who, request, answer, root string, paths ...string) {
	t.Helper()
	steady := changing.ReplaceAllStringFunc(r.stable.Replace(answer), func(found string) string {
		if strings.HasPrefix(found, "v1.") {
			return "HANDLE"
		}
		return "TIME"
	})
	decoder := json.NewDecoder(strings.NewReader(steady))
	decoder.UseNumber()
	var whole any
	if err := decoder.Decode(&whole); err != nil {
		t.Fatalf("%s: %v: %s", request, err, answer)
	}
	part, shown := map[string]any{}, at(whole, root)
	for _, path := range paths {
		value := at(shown, path)
		if value == nil {
			continue
		}
		keys, into := strings.Fields(path), part
		for _, key := range keys[:len(keys)-1] {
			next, ok := into[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				into[key] = next
			}
			into = next
		}
		into[keys[len(keys)-1]] = value
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(part); err != nil {
		t.Fatal(err)
	}
	r.writes(who+": `"+request+"`", "json", text.String())
}

// at is the value at a path of keys and indices; nil where there is none.
func at(value any, path string) any {
	for key := range strings.FieldsSeq(path) {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// compare compares the conversation with the page, between the marks of its test, or writes it there.
func (r *talk) compare(t *testing.T, test string) {
	t.Helper()
	page, err := os.ReadFile(conversations)
	if err != nil {
		t.Fatal(err)
	}
	begins, ends := "<!-- "+test+" -update writes this -->\n\n", "<!-- "+test+" ends -->\n"
	head, rest, ok := strings.Cut(string(page), begins)
	was, tail, isClosed := strings.Cut(rest, ends)
	if !ok || !isClosed {
		t.Fatalf("%s has no place for %s", conversations, test)
	}
	if *update {
		if err := os.WriteFile(conversations, []byte(head+begins+r.text.String()+ends+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(was, r.text.String()); diff != "" {
		t.Errorf("%s has another conversation; run the test with -update (-page +now):\n%s", conversations, diff)
	}
}

// tokenOf is the token of a caller or an operator.
func tokenOf(name string) string { return name + "-token-0123456789abcdef0123456789abcdef" }

// callersFile lets callers call some tools.
func callersFile(t *testing.T, tools string, names ...string) string {
	t.Helper()
	text := "callers:\n"
	for _, name := range names {
		text += fmt.Sprintf("  - {name: %s, token_sha256: [%x], tools: [%q]}\n", name, sha256.Sum256([]byte(tokenOf(name))), tools)
	}
	return rig.Write(t, "callers.yaml", []byte(text))
}

// ask sends a request with the token of a caller or an operator. A replica that does not answer has the status 0.
func ask(t *testing.T, method, url, who string, header http.Header, body string) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Authorization", "Bearer "+tokenOf(who))
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// withTasks is the capability of a client that takes tasks.
const withTasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`

// askMCP sends a request of MCP 2026-07-28. The params end with a comma; the name is what the headers repeat of them.
func askMCP(t *testing.T, s *sidecar.Server, who, method, name, params, capabilities string) (status int, text string) {
	t.Helper()
	const version = "2026-07-28"
	header := http.Header{"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {method}}
	if name != "" {
		header.Set("Mcp-Name", name)
	}
	return ask(t, http.MethodPost, s.URL("/mcp"), who, header, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`","io.modelcontextprotocol/clientCapabilities":{`+capabilities+`}}}}`)
}
