// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

const (
	frontNamespace = "front"
	frontURI       = "spiffe://cluster.local/ns/front/sa/front"
	frontIssuer    = "https://front.example"
	// frontCaller is how the services behind know the caller of these tests.
	frontCaller = frontIssuer + "#load"
)

// frontServices are the backends of examples/front, each in a namespace of its name.
func frontServices() []string { return []string{"fleet", "orders", "billing"} }

// frontDoor is the front with what is behind it.
type frontDoor struct {
	n         *node.Node
	authority *tlstest.Authority
	own       tlstest.Pair
	key       *ecdsa.PrivateKey
	address   string
	inner     map[string]*pod
	ips       map[string]string
}

// testFront deploys examples/front, and examples/behind-front once for each of its services, in the order of docs/many-backends.md, whose commands
// copy the keys: pods behind wait for them, and the front is not ready meanwhile. There is no cluster DNS: hostAliases of the front's pod give the
// addresses of the pods for the names of their Services, so the pod is made anew when these are known. That is all that differs from the examples.
func testFront(t *testing.T, n *node.Node, p prepared, r *result) {
	f := &frontDoor{n: n, authority: tlstest.NewAuthority(t), inner: map[string]*pod{}, ips: map[string]string{}}
	f.own = f.authority.Issue(t, tlstest.Leaf{Hosts: []string{"front.front.svc"}, URIs: []string{frontURI}})
	deployment := f.install(t)
	first := place(t, n, podIn(t, deployment, frontNamespace, "front-first"), "front")
	aliases := []any{}
	for _, service := range frontServices() {
		f.behind(t, service)
	}
	f.copyKeys(t, p, deployment, first)
	for _, service := range frontServices() {
		f.ips[service] = f.inner[service].ready(t).Status.PodIP
		aliases = append(aliases, map[string]any{"ip": f.ips[service], "hostnames": []any{service + "." + service + ".svc"}})
	}
	first.remove(t)
	o := podIn(t, deployment, frontNamespace, "front")
	o["spec"].(map[string]any)["hostAliases"] = aliases
	front := place(t, n, o, "front")
	f.address = front.ready(t).Status.PodIP + ":8080"
	for _, service := range frontServices() {
		within(t, time.Minute, "the tools of "+service+" are there", func() error {
			_, err := f.connectTools().CallTool(t.Context(), toolCall(service+".lab.echo", "{}"))
			return err
		})
	}
	t.Run("clients", f.testClients)
	t.Run("errors", f.testErrors)
	t.Run("identity", f.testIdentity)
	t.Run("one goes", func(t *testing.T) { f.testOneGoes(t, r) })
}

// podIn is podOf in another namespace.
func podIn(t *testing.T, deployment object, namespace, name string) object {
	t.Helper()
	o := podOf(t, copyOf(t, deployment), name)
	o.meta()["namespace"] = namespace
	return o
}

// secret makes a Secret.
func secret(t *testing.T, n *node.Node, namespace, name string, data map[string]any) {
	t.Helper()
	apply(t, n, object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": namespace}, "stringData": data}, false)
}

// namespaceOf makes a namespace that enforces what the production example does.
func namespaceOf(t *testing.T, n *node.Node, name string) {
	t.Helper()
	if name != namespace {
		apply(t, n, object{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
			"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"},
		}}, false)
	}
}

// certificate makes the Secret outrigger-tls of a pair.
func (f *frontDoor) certificate(t *testing.T, namespace string, pair tlstest.Pair) {
	t.Helper()
	data := map[string]any{}
	for name, path := range map[string]string{"ca.crt": f.authority.File, "tls.crt": pair.CertFile, "tls.key": pair.KeyFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[name] = string(text)
	}
	secret(t, f.n, namespace, "outrigger-tls", data)
}

// install applies the front with its Secrets, and returns its Deployment.
func (f *frontDoor) install(t *testing.T) object {
	t.Helper()
	namespaceOf(t, f.n, frontNamespace)
	makeAccessIn(t, f.n, frontNamespace, "front")
	f.certificate(t, frontNamespace, f.own)
	var err error
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(f.key)
	if err != nil {
		t.Fatal(err)
	}
	secret(t, f.n, frontNamespace, "outrigger-signing", map[string]any{"key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))})
	all := renderIn(t, "front", frontNamespace, func(text string) string { return text })
	applyAll(t, f.n, all)
	return deploymentOf(t, all)
}

// applyAll applies all but Deployments, whose pods the tests make.
func applyAll(t *testing.T, n *node.Node, all []object) {
	t.Helper()
	for _, o := range all {
		if o.kind() != "Deployment" {
			apply(t, n, o, false)
		}
	}
}

// copyKeys runs the commands of docs/many-backends.md while the front's pod runs and is not ready, and those that copy a second time, as after a
// change of the keys.
func (f *frontDoor) copyKeys(t *testing.T, p prepared, deployment object, front *pod) {
	t.Helper()
	testkit.Try(t, "the front has started", func() error {
		if started := front.status(t).container("front").Started; started == nil || !*started {
			return errors.New(front.describe(t))
		}
		return nil
	})
	if front.status(t).ready() {
		t.Error("the front is ready with nothing behind it")
	}
	// kubectl finds the pod by the Deployment's selector. No controller makes a second one yet, and it is gone before there are any.
	apply(t, f.n, deployment, false)
	t.Cleanup(func() {
		if err := f.n.API().Delete(context.WithoutCancel(t.Context()), "/apis/apps/v1/namespaces/"+frontNamespace+"/deployments/front"); err != nil {
			t.Error(err)
		}
	})
	blocks := pageBlocks(t, "../../docs/many-backends.md")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d commands, want two: is a fence misspelt?", len(blocks))
	}
	s := newShell(t, f.n, p)
	s.forward(t, blocks[0].command)
	for _, want := range []string{"created", "unchanged"} {
		out := s.run(t, blocks[1].command)
		if n := strings.Count(out, "configmap/outrigger-front-keys "+want); n != len(frontServices()) {
			t.Errorf("%s prints %q, want %q %d times", blocks[1].command, out, want, len(frontServices()))
		}
	}
}

// behind makes one service behind the front: the example with its name in place of fleet. Its pod waits for the keys.
func (f *frontDoor) behind(t *testing.T, service string) {
	t.Helper()
	namespaceOf(t, f.n, service)
	f.certificate(t, service, f.authority.Issue(t, tlstest.Leaf{Hosts: []string{service + "." + service + ".svc"}}))
	all := renderIn(t, "behind-front", service, func(text string) string { return strings.ReplaceAll(text, "fleet", service) })
	applyAll(t, f.n, all)
	f.inner[service] = place(t, f.n, podIn(t, deploymentOf(t, all), service, "behind"), "sidecar", service)
}

// mcpEras are revisions of MCP that a client may speak: one with sessions, one without.
func mcpEras() []string { return []string{"2025-11-25", "2026-07-28"} }

// mcpClient is an MCP client of one revision.
type mcpClient struct {
	http    *http.Client
	url     string
	era     string
	session string
}

// ask sends one request and returns the result; an error of the protocol is an error.
func (c *mcpClient) ask(ctx context.Context, method string, params map[string]any) (map[string]any, error) {
	if c.era == "2026-07-28" {
		params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": c.era, "io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	}
	body := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
	if !strings.HasPrefix(method, "notifications/") {
		body["id"] = 1
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method != "initialize" {
		req.Header.Set("Mcp-Protocol-Version", c.era)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.era == "2026-07-28" {
		req.Header.Set("Mcp-Method", method)
		if name, ok := params["name"].(string); ok {
			req.Header.Set("Mcp-Name", name)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	text, err = io.ReadAll(res.Body)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		_, data, _ := strings.Cut(string(text), "data: ")
		line, _, _ := strings.Cut(data, "\n")
		text = []byte(line)
	}
	var reply struct {
		Result map[string]any
		Error  json.RawMessage
	}
	if err := json.Unmarshal(text, &reply); err != nil || reply.Error != nil || res.StatusCode/100 != 2 {
		return nil, fmt.Errorf("HTTP %d: %.500s (%w)", res.StatusCode, text, err)
	}
	return reply.Result, nil
}

// dialMCP returns a client of a revision, with a session where it has them.
func dialMCP(t *testing.T, client *http.Client, url, era string) *mcpClient {
	t.Helper()
	c := &mcpClient{http: client, url: url, era: era}
	if era != "2026-07-28" {
		_, err := c.ask(t.Context(), "initialize", map[string]any{"protocolVersion": era, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}})
		if err == nil {
			_, err = c.ask(t.Context(), "notifications/initialized", map[string]any{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// call calls a tool and returns the whole result.
func (c *mcpClient) call(ctx context.Context, tool string, arguments map[string]any) (map[string]any, error) {
	return c.ask(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// finds reports whether the search of the front's catalog, which is too large to be listed, finds a tool.
func (c *mcpClient) finds(t *testing.T, tool string) bool {
	t.Helper()
	result, err := c.call(t.Context(), "catalog_search", map[string]any{"query": strings.ReplaceAll(tool, "_", " ")})
	text, _ := json.Marshal(result)
	if err != nil || !strings.Contains(string(text), tool) {
		t.Logf("%s (%v)", text, err)
		return false
	}
	return true
}

// connectTools is a client of the tool API over Connect.
func (f *frontDoor) connectTools() outriggerv1connect.ToolServiceClient {
	return outriggerv1connect.NewToolServiceClient(httpClient(false), "http://"+f.address)
}

func toolCall(tool, arguments string) *connect.Request[outriggerv1.ToolCall] {
	return connect.NewRequest(&outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}})
}

// subject is who the app behind a sidecar hears of, in the result of lab.inspect.
func subject(result any) string {
	text, _ := json.Marshal(result)
	var seen struct {
		Metadata map[string]struct{ Values []string }
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		return err.Error()
	}
	return strings.Join(seen.Metadata["x-outrigger-subject"].Values, ",")
}

// testClients: an MCP client of each era and a Connect client call tools of all services, each in the caller's name.
func (f *frontDoor) testClients(t *testing.T) {
	for _, era := range mcpEras() {
		c := dialMCP(t, httpClient(false), "http://"+f.address+"/mcp", era)
		for _, service := range frontServices() {
			tool := service + "_lab_inspect"
			if !c.finds(t, tool) {
				t.Errorf("%s: %s is not found", era, tool)
			}
			result, err := c.call(t.Context(), tool, map[string]any{})
			if got := subject(result["structuredContent"]); err != nil || got != frontCaller {
				t.Errorf("%s: the app of %s hears of %q, want %q (%v)", era, service, got, frontCaller, err)
			}
		}
	}
	client := f.connectTools()
	for _, service := range frontServices() {
		out, err := client.CallTool(t.Context(), toolCall(service+".lab.inspect", "{}"))
		if err != nil {
			t.Errorf("%s: %v", service, err)
			continue
		}
		if got := subject(json.RawMessage(out.Msg.GetResult().GetDataJson())); got != frontCaller {
			t.Errorf("Connect: the app of %s hears of %q, want %q", service, got, frontCaller)
		}
	}
}

// direct is a client with the front's certificate, which reaches a service without the front.
func (f *frontDoor) direct(t *testing.T, service, token string, pairs ...tls.Certificate) *http.Client {
	t.Helper()
	return &http.Client{Timeout: callTimeout, Transport: bearerOf{token, &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: f.authority.Pool, ServerName: service + "." + service + ".svc", Certificates: pairs, MinVersion: tls.VersionTLS13},
	}}}
}

// bearerOf adds a token, if there is one.
type bearerOf struct {
	token string
	next  http.RoundTripper
}

func (b bearerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// testErrors: what a tool fails with is the same through the front as from the service's own sidecar.
func (f *frontDoor) testErrors(t *testing.T) {
	for _, service := range frontServices() {
		through := dialMCP(t, httpClient(false), "http://"+f.address+"/mcp", "2026-07-28")
		direct := dialMCP(t, f.direct(t, service, sign(t, f.key, claimsFor(service, time.Minute)), f.own.Certificate(t)), "https://"+f.ips[service]+":8443/mcp", "2026-07-28")
		for _, arguments := range []map[string]any{
			{"code": "FAIL_CODE_NOT_FOUND", "message": "no such order", "details": []any{"FAIL_DETAIL_ERROR_INFO", "FAIL_DETAIL_HELP"}},
			{"code": "FAIL_CODE_FAILED_PRECONDITION", "details": []any{"FAIL_DETAIL_PRECONDITION_FAILURE"}},
			{"code": "FAIL_CODE_RESOURCE_EXHAUSTED", "details": []any{"FAIL_DETAIL_RETRY_INFO"}, "retry_delay": "3s"},
			{"code": "FAIL_CODE_INTERNAL", "message": "secret of the service"},
			{"code": "NO_SUCH_CODE"},
		} {
			want, err := direct.call(t.Context(), "lab_fail", arguments)
			if err != nil {
				t.Fatal(err)
			}
			got, err := through.call(t.Context(), service+"_lab_fail", arguments)
			if err != nil {
				t.Fatal(err)
			}
			// The tool has another name there, and nothing else differs.
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), service+"_lab_fail", "lab_fail")), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || want["isError"] != true {
				t.Errorf("%s: %v fails otherwise through the front (-direct +front):\n%s", service, arguments, diff)
			}
		}
	}
}

// sign signs claims as the front does.
func sign(t *testing.T, key *ecdsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "ES256"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// claimsFor are the claims of a token for a service.
func claimsFor(audience string, life time.Duration) map[string]any {
	return map[string]any{"iss": frontIssuer, "sub": "mallory", "aud": audience, "iat": time.Now().Unix() - 600, "exp": time.Now().Add(life).Unix()}
}

// testIdentity: a service takes the front's connections alone, and no token but one of the front's key for this very service. Its audit trail
// names the caller.
func (f *frontDoor) testIdentity(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := f.own.Certificate(t)
	for name, tc := range map[string]struct {
		token string
		fails bool
	}{
		"the front's key":   {sign(t, f.key, claimsFor("orders", time.Minute)), false},
		"another audience":  {sign(t, f.key, claimsFor("billing", time.Minute)), true},
		"another key":       {sign(t, other, claimsFor("orders", time.Minute)), true},
		"expired":           {sign(t, f.key, claimsFor("orders", -5*time.Minute)), true},
		"the caller's own":  {token, true},
		"not even a signed": {"bearer-of-nothing-at-all", true},
	} {
		c := &mcpClient{http: f.direct(t, "orders", tc.token, own), url: "https://" + f.ips["orders"] + ":8443/mcp", era: "2026-07-28"}
		_, err := c.call(t.Context(), "lab_echo", map[string]any{})
		if failed := err != nil && strings.Contains(err.Error(), "HTTP 401"); failed != tc.fails || err != nil && !failed {
			t.Errorf("%s: %v, want it refused: %v", name, err, tc.fails)
		}
	}
	// The front itself sees the tools, and may not call them.
	alone := &mcpClient{http: f.direct(t, "orders", "", own), url: "https://" + f.ips["orders"] + ":8443/mcp", era: "2026-07-28"}
	list, err := alone.ask(t.Context(), "tools/list", map[string]any{})
	text, _ := json.Marshal(list)
	if err != nil || !strings.Contains(string(text), `"name":"lab_echo"`) {
		t.Errorf("the front's certificate alone lists %s (%v)", text, err)
	}
	result, err := alone.call(t.Context(), "lab_echo", map[string]any{})
	text, _ = json.Marshal(result)
	if err != nil || !strings.Contains(string(text), `"code":"PERMISSION_DENIED"`) || !strings.Contains(string(text), "front-calls-for-others") {
		t.Errorf("the front's certificate alone calls a tool: %s (%v)", text, err)
	}
	stranger := f.authority.Issue(t, tlstest.Leaf{URIs: []string{"spiffe://cluster.local/ns/other/sa/other"}}).Certificate(t)
	for name, pairs := range map[string][]tls.Certificate{"no certificate": nil, "a certificate of another service": {stranger}} {
		c := &mcpClient{http: f.direct(t, "orders", "", pairs...), url: "https://" + f.ips["orders"] + ":8443/mcp", era: "2026-07-28"}
		if _, err := c.call(t.Context(), "lab_echo", map[string]any{}); err == nil || strings.Contains(err.Error(), "HTTP") {
			t.Errorf("%s: %v, want no connection", name, err)
		}
	}
	for _, service := range frontServices() {
		testkit.Try(t, "the caller is in the trail of "+service, func() error {
			for _, e := range f.inner[service].logs["sidecar"].all() {
				caller, _ := e.Fields["caller"].(map[string]any)
				if e.text("tool") == "lab.inspect" && caller["name"] == frontCaller && caller["source"] == "oauth" && caller["issuer"] == frontIssuer {
					return nil
				}
			}
			return errors.New(f.inner[service].logs["sidecar"].tail())
		})
	}
}

// testOneGoes deletes one service while the others are called: none of their calls fails, its tools are still found, and calls of the one that
// has gone are UNAVAILABLE.
func (f *frontDoor) testOneGoes(t *testing.T, r *result) {
	c := dialMCP(t, httpClient(false), "http://"+f.address+"/mcp", "2026-07-28")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calls atomic.Int64
	var callers sync.WaitGroup
	for _, service := range []string{"fleet", "orders"} {
		for n := range 4 {
			callers.Go(func() {
				client := f.connectTools()
				for round := 0; ctx.Err() == nil; round++ {
					nonce := fmt.Sprintf("%s-%d-%d", service, n, round)
					out, err := client.CallTool(t.Context(), toolCall(service+".lab.echo", fmt.Sprintf(`{"nonce":%q}`, nonce)))
					if err != nil || !strings.Contains(string(out.Msg.GetResult().GetDataJson()), nonce) {
						t.Errorf("%s: %v %v", nonce, out, err)
						return
					}
					calls.Add(1)
					time.Sleep(20 * time.Millisecond) // some callers, not a load
				}
			})
		}
	}
	f.inner["billing"].remove(t)
	testkit.Try(t, "calls of billing are UNAVAILABLE", func() error {
		result, err := c.call(t.Context(), "billing_lab_echo", map[string]any{})
		text, _ := json.Marshal(result)
		if err != nil || !strings.Contains(string(text), `"code":"UNAVAILABLE"`) {
			return fmt.Errorf("%s (%w)", text, err)
		}
		return nil
	})
	if _, err := f.connectTools().CallTool(t.Context(), toolCall("billing.lab.echo", "{}")); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("Connect: a call of billing ends with %v", err)
	}
	if !c.finds(t, "billing_lab_echo") {
		t.Error("the tools of billing are not found any more")
	}
	if code, text := probe(t, strings.TrimSuffix(f.address, ":8080"), "/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, text)
	}
	stop()
	callers.Wait()
	r.front = fmt.Sprintf("an MCP client of each era and a Connect client call tools of all three, errors are those of the service; each sidecar behind takes the front's signed token, "+
		"and no other; one service deleted: %d calls of the others, all answered, its tools are still found, and answer UNAVAILABLE", calls.Load())
}
