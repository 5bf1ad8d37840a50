// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// TestStepUp: a caller comes back to its session with a token that has more scopes, sees
// the tool, and calls it.
func TestStepUp(t *testing.T) {
	t.Parallel()
	for _, isListed := range []bool{false, true} {
		m := newMatrix(t, newDirectory(t, callers()), func(c *configv1.Config) { c.Access.Oauth.ListWithoutScope = isListed })
		before, after := callers()[5], callers()[4] // of issuer A, without scopes and with some
		session := openSession(t, before.client(t, 1), m.url, "2025-11-25")
		listed := func(w who) []string {
			return m.namesIn(t, session.send(t, w.client(t, 1), "tools/list", "").body)
		}
		echo := func(w who) outcome {
			return session.send(t, w.client(t, 1), "tools/call", `"name":"lab_echo","arguments":{"nonce":"n"}`)
		}
		if got := slices.Contains(listed(before), "lab.echo"); got != isListed {
			t.Errorf("without the scope, the tool is listed: %v, want %v", got, isListed)
		}
		const challenge = `Bearer error="insufficient_scope", scope="tools:read", resource_metadata="` + resourceMetadata + `"`
		if got := echo(before); got.status != http.StatusForbidden || got.challenge != challenge {
			t.Errorf("without the scope: %+v", got)
		}
		if !slices.Contains(listed(after), "lab.echo") {
			t.Error("with the scope, the tool is not listed")
		}
		if got := echo(after); got.status != http.StatusOK || !strings.Contains(got.body, `"isError":false`) {
			t.Errorf("with the scope: %+v", got)
		}
		// The challenge names what the next request needs, and not what is granted already.
		got := session.send(t, after.client(t, 1), "tools/call", `"name":"tidy","arguments":{}`)
		if want := strings.Replace(challenge, "tools:read", "tools:write", 1); got.challenge != want {
			t.Errorf("the next step: %+v", got)
		}
	}
}

// TestADenialSaysThatAnotherTokenHelps where the challenge names its scopes, and says nothing about grants (draft SEP-2643).
func TestADenialSaysThatAnotherTokenHelps(t *testing.T) {
	t.Parallel()
	for _, isOn := range []bool{false, true} {
		m := newMatrix(t, newDirectory(t, callers()), func(c *configv1.Config) {
			if isOn {
				c.Experimental = []string{"structured-denials"}
			}
		})
		for at, denial := range map[int]string{
			5: `"denial":{"availability":"available","credentialDisposition":"replacement"}`, // of issuer A, without scopes
			0: `"denial":{"availability":"undisclosed"}`,                                     // of the callers file, without this tool
		} {
			w := callers()[at]
			for edge, got := range map[string]outcome{
				"rpc": canonical(t, m, w, "tools/call", `"name":"tidy","arguments":{}`),
				"mcp": callModern(t, w.client(t, 1), m.url, "tools/call", `"name":"tidy","arguments":{}`, "tidy"),
			} {
				if got.status != http.StatusForbidden || strings.Contains(got.body, denial) != isOn || strings.Contains(got.body, `"denial"`) != isOn {
					t.Errorf("%s, %s, on %t: %+v", w.name, edge, isOn, got)
				}
			}
		}
	}
}

// TestListWithoutScope: what is listed is described, and is not run in any way.
func TestListWithoutScope(t *testing.T) {
	t.Parallel()
	m := newMatrix(t, newDirectory(t, callers()), func(c *configv1.Config) {
		c.Access.Oauth.ListWithoutScope = true
		c.Access.Oauth.OperationScopes = nil
	})
	w := callers()[5]
	for edge, names := range m.lists(t, w) {
		if len(names) != len(m.rig.Live.Current().Tools()) {
			t.Errorf("%s lists %d tools", edge, len(names))
		}
	}
	if got := canonical(t, m, w, "tools/get", `"name":"lab.echo"`); got.code != "" || !strings.Contains(got.body, `"inputSchema"`) {
		t.Errorf("the description: %+v", got)
	}
	before := m.backend.calls.Load()
	for _, params := range []string{"lagoon://vehicles/101"} {
		got := callModern(t, w.client(t, 1), m.url, "resources/read", `"uri":"`+params+`"`, params)
		if got.status != http.StatusForbidden || !strings.Contains(got.challenge, `scope="tools:read"`) {
			t.Errorf("a resource of such a tool: %+v", got)
		}
	}
	if got := callModern(t, w.client(t, 1), m.url, "resources/list", "", ""); got.code != "" || strings.Contains(got.body, "lagoon://vehicles/1") {
		t.Errorf("a list that such a tool makes: %+v", got)
	}
	if m.backend.calls.Load() != before {
		t.Error("a tool ran")
	}
}
