// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// namesakes are three callers of one name, and a second token of one of them.
func namesakes() (all []who, again who) {
	every := []string{glob.Anything}
	made := withTokens([]who{
		{name: "file: ann", grant: &identity.Grant{Name: subject, Tools: every, Resources: every, Prompts: every, Trust: identity.Trusted}},
		{name: "issuer A: ann", issuer: issuerA, scopes: everyScope},
		{name: "issuer B: ann", issuer: issuerB, scopes: everyScope},
		{name: "issuer A: ann, again", issuer: issuerA, scopes: append([]string{"openid"}, everyScope...)},
	})
	return made[:3], made[3]
}

// newNamesakes starts a sidecar for them.
func newNamesakes(t *testing.T, configure func(*configv1.Config)) (m *matrix, all []who, again who) {
	t.Helper()
	all, again = namesakes()
	return newMatrix(t, newDirectory(t, append(all[:3:3], again)), configure), all, again
}

// TestNamesakes: what belongs to one of three callers of the same name belongs to neither
// of the others, and its own to each token.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	m, all, again := newNamesakes(t, func(c *configv1.Config) { c.Limits.MaxPageEntries = proto.Int32(2) })
	for _, tt := range []struct {
		name string
		// make makes something for a caller, use uses it and reports whether it was there.
		make func(t *testing.T, w who) string
		use  func(t *testing.T, w who, thing string) bool
	}{
		{"session", func(t *testing.T, w who) string {
			t.Helper()
			return openSession(t, w.client(t, 1), m.url, "2025-11-25").id
		}, func(t *testing.T, w who, id string) bool {
			t.Helper()
			got := legacySession{url: m.url + "/mcp", revision: "2025-11-25", id: id}.send(t, w.client(t, 1), "tools/list", "")
			return expect(t, got, http.StatusOK, http.StatusNotFound)
		}},
		{"stream of a session", func(t *testing.T, w who) string {
			t.Helper()
			return openSession(t, w.client(t, 1), m.url, "2025-11-25").id
		}, func(t *testing.T, w who, id string) bool {
			t.Helper()
			got := legacySession{url: m.url + "/mcp", revision: "2025-11-25", id: id}.send(t, w.client(t, 1), "", "")
			return expect(t, got, http.StatusOK, http.StatusNotFound)
		}},
		{"cursor", func(t *testing.T, w who) string {
			t.Helper()
			return member(t, callModern(t, w.client(t, 1), m.url, "tools/list", "", ""), "nextCursor")
		}, func(t *testing.T, w who, cursor string) bool {
			t.Helper()
			got := callModern(t, w.client(t, 1), m.url, "tools/list", `"cursor":"`+cursor+`"`, "")
			return isThere(t, got, `"tools":[`, `"code":-32602`)
		}},
		{"task", func(t *testing.T, w who) string {
			t.Helper()
			return member(t, callModern(t, w.client(t, 1), m.url, "tools/call", `"name":"begin","arguments":{"job":"drying"}`, "begin"), "taskId")
		}, func(t *testing.T, w who, id string) bool {
			t.Helper()
			got := callModern(t, w.client(t, 1), m.url, "tasks/get", `"taskId":"`+id+`"`, id)
			return isThere(t, got, `"status":"failed"`, "unknown task")
		}},
		{"request state", func(t *testing.T, w who) string {
			t.Helper()
			return member(t, callModern(t, w.client(t, 1), m.url, "tools/call", `"name":"sign","arguments":{"letter":1}`, "sign"), "requestState")
		}, func(t *testing.T, w who, state string) bool {
			t.Helper()
			got := callModern(t, w.client(t, 1), m.url, "tools/call",
				`"name":"sign","arguments":{"letter":1},"requestState":"`+state+`","inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}}}`, "sign")
			return isThere(t, got, "Signed by Ann.", "INVALID_PARAMS")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, owner := range all {
				thing := tt.make(t, owner)
				for _, other := range all {
					if other.name != owner.name && tt.use(t, other, thing) {
						t.Errorf("%s uses what belongs to %s", other.name, owner.name)
					}
				}
				if owner.issuer == again.issuer {
					owner = again
				}
				if !tt.use(t, owner, thing) {
					t.Errorf("%s cannot use what is its own", owner.name)
				}
			}
		})
	}
}

// expect is whether an answer has the first status; it must have one of the two.
func expect(t *testing.T, got outcome, there, gone int) bool {
	t.Helper()
	if got.status != there && got.status != gone {
		t.Errorf("%+v", got)
	}
	return got.status == there
}

// isThere is whether a body has the first text; it must have one of the two.
func isThere(t *testing.T, got outcome, there, gone string) bool {
	t.Helper()
	if strings.Contains(got.body, there) == strings.Contains(got.body, gone) {
		t.Errorf("%+v has neither %q nor %q, or both", got, there, gone)
	}
	return strings.Contains(got.body, there)
}

// member is a text in the body of an answer.
func member(t *testing.T, got outcome, name string) string {
	t.Helper()
	found := regexp.MustCompile(`"` + name + `":"([^"]+)"`).FindStringSubmatch(got.body)
	if found == nil {
		t.Fatalf("no %s in %+v", name, got)
	}
	return found[1]
}

// TestNamesakesHaveRatesOfTheirOwn: one bucket for each caller, and not for each token.
func TestNamesakesHaveRatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	m, all, again := newNamesakes(t, func(c *configv1.Config) {
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(2)}
	})
	ask := func(w who) string {
		return canonical(t, m, w, "tools/call", `"name":"lab.echo","arguments":{}`).code
	}
	for _, w := range all {
		if first, second, third := ask(w), ask(w), ask(w); first+second != "" || third != "RATE_LIMITED" {
			t.Errorf("%s: %q, %q, %q", w.name, first, second, third)
		}
	}
	if got := ask(again); got != "RATE_LIMITED" {
		t.Errorf("%s: %q", again.name, got)
	}
}

// TestNamesakesAreTrustedByTheirOwnSource: the callers file says nothing about callers of
// an authorization server.
func TestNamesakesAreTrustedByTheirOwnSource(t *testing.T) {
	t.Parallel()
	m, all, _ := newNamesakes(t, nil)
	for _, w := range all {
		want := "DESTRUCTIVE_BLOCKED"
		if w.grant != nil {
			want = ""
		}
		if got := canonical(t, m, w, "tools/call", `"name":"desk.wipe","arguments":{}`); got.code != want {
			t.Errorf("%s: %+v, want %q", w.name, got, want)
		}
	}
}
