// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	plannerToken = "planner-0123456789abcdef"
	batchToken   = "batch-0123456789abcdef"
)

func entry(name, token string, tools ...string) identity.Entry {
	return identity.Entry{Grant: identity.Grant{Name: name, Tools: tools}, Tokens: []identity.Digest{sha256.Sum256([]byte(token))}}
}

func TestBook(t *testing.T) {
	t.Parallel()
	const uri = "spiffe://example.org/agent"
	book := identity.NewBook([]identity.Entry{
		entry("planner", plannerToken, "fleet.*"),
		entry("batch", batchToken, "*"),
		{Grant: identity.Grant{Name: "agent", Tools: []string{"lab.echo"}}, URIs: []string{uri}},
		{Grant: identity.Grant{Name: "user", Tools: []string{"*"}}, UIDs: []uint32{0, 1000}},
		{Grant: identity.Grant{Name: "group", Tools: []string{"*"}}, GIDs: []uint32{1000}},
	})
	process := func(uid, gid uint32) identity.Credentials {
		return identity.Credentials{Process: &identity.Process{UID: uid, GID: gid}}
	}
	tests := []struct {
		name   string
		shown  identity.Credentials
		want   string
		reason identity.Reason
	}{
		{"a token", identity.Credentials{Token: plannerToken}, "planner", ""},
		{"another", identity.Credentials{Token: batchToken}, "batch", ""},
		{"a certificate", identity.Credentials{URIs: []string{"spiffe://example.org/other", uri}}, "agent", ""},
		{"both: the token decides", identity.Credentials{Token: batchToken, URIs: []string{uri}}, "batch", ""},
		{"a bad token beside a good certificate", identity.Credentials{Token: batchToken + "x", URIs: []string{uri}}, "", identity.Unknown},
		{"nothing", identity.Credentials{}, "", identity.Missing},
		{"a user before a group", process(1000, 1000), "user", ""},
		{"root is a user like others", process(0, 0), "user", ""},
		{"a group", process(7, 1000), "group", ""},
		{"an unknown user", process(7, 0), "", identity.Unknown},
		{"a token of another caller", identity.Credentials{Token: batchToken, Process: &identity.Process{UID: 1000}}, "batch", ""},
		{"a bad token of a known user", identity.Credentials{Token: batchToken + "x", Process: &identity.Process{UID: 1000}}, "", identity.Unknown},
		{"an unknown certificate", identity.Credentials{URIs: []string{"spiffe://example.org/other"}}, "", identity.Unknown},
		{"an unknown token", identity.Credentials{Token: strings.ToUpper(plannerToken)}, "", identity.Unknown},
		{"the beginning of a token", identity.Credentials{Token: plannerToken[:len(plannerToken)-1]}, "", identity.Unknown},
		{"a token and more", identity.Credentials{Token: plannerToken + "="}, "", identity.Unknown},
		{"too short", identity.Credentials{Token: "0123456789abcde"}, "", identity.Malformed},
		{"too long", identity.Credentials{Token: strings.Repeat("a", identity.MaxToken+1)}, "", identity.Malformed},
		{"no token", identity.Credentials{Token: plannerToken + "\x00"}, "", identity.Malformed},
		{"two words", identity.Credentials{Token: plannerToken + " x"}, "", identity.Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := book.Authenticate(t.Context(), tt.shown)
			var refused *identity.Refusal
			if errors.As(err, &refused) != (tt.reason != "") || refused != nil && refused.Reason != tt.reason || got.Name() != tt.want {
				t.Fatalf("%q, %v", got.Name(), err)
			}
			if refused == nil {
				return
			}
			if !strings.HasPrefix(refused.Challenge, `Bearer realm="outrigger"`) {
				t.Errorf("challenge %q", refused.Challenge)
			}
			if strings.Contains(refused.Challenge, "error=") != (tt.reason != identity.Missing) {
				t.Errorf("challenge %q for %s", refused.Challenge, tt.reason)
			}
			if tt.shown.Token != "" && strings.Contains(err.Error()+refused.Challenge, tt.shown.Token) {
				t.Errorf("%v repeats the token", err)
			}
		})
	}
}

// TestIdentity: what each caller may do, and that no authentication means everything.
func TestIdentity(t *testing.T) {
	t.Parallel()
	some := identity.NewIdentity(identity.Grant{
		Name: "a", Tools: []string{"fleet.get_*", "lab.echo"}, Resources: []string{"doc://*/public"}, Prompts: []string{"greet"}, Trust: identity.Trusted,
	})
	for tool, may := range map[string]bool{
		"fleet.get_order": true, "lab.echo": true, "lab.echo2": false, "fleet.cancel_order": false, "": false, "xfleet.get_a": false,
	} {
		if some.MayCall(tool) != may {
			t.Errorf("%q: %v", tool, !may)
		}
	}
	if !some.MayRead("doc://a/public") || some.MayRead("doc://a/private") || !some.MayPrompt("greet") || some.MayPrompt("greeting") {
		t.Error("resources or prompts")
	}
	everything := identity.NewIdentity(identity.Grant{Name: "b", Tools: []string{"x", "*"}})
	if !everything.MayCall("any.thing") || everything.Scope() != "" || everything.MayRead("doc://a") || everything.MayPrompt("greet") {
		t.Error("a caller of all tools")
	}
	var anonymous *identity.Identity
	if !anonymous.MayCall("a.b") || !anonymous.MayRead("doc://a") || !anonymous.MayPrompt("p") || anonymous.Principal() != "" || anonymous.Trust() != identity.Unsaid ||
		anonymous.Revoked() != nil || !anonymous.WhenRevoked(func() {})() || anonymous.Scope() != "" {
		t.Error("a caller without authentication may not do everything")
	}
	same := identity.NewIdentity(identity.Grant{Name: "c", Tools: []string{"lab.echo", "fleet.get_*", "lab.echo"}})
	if same.Scope() != some.Scope() || same.Principal() == some.Principal() || some.Trust() != identity.Trusted {
		t.Errorf("scopes %q and %q, principals %q and %q", same.Scope(), some.Scope(), same.Principal(), some.Principal())
	}
	if identity.FromContext(identity.NewContext(t.Context(), some)) != some || identity.FromContext(t.Context()) != nil {
		t.Error("context")
	}
}

// TestReplace: who stays the same keeps their identity; all others end.
func TestReplace(t *testing.T) {
	t.Parallel()
	book := identity.NewBook([]identity.Entry{entry("stays", plannerToken, "a.*"), entry("changes", batchToken, "a.*")})
	stays, _ := book.Authenticate(t.Context(), identity.Credentials{Token: plannerToken})
	changes, _ := book.Authenticate(t.Context(), identity.Credentials{Token: batchToken})
	told := make(chan struct{})
	changes.WhenRevoked(func() { close(told) })

	if ended := book.Replace([]identity.Entry{entry("changes", batchToken, "b.*"), entry("stays", plannerToken, "a.*")}); ended != 1 {
		t.Errorf("%d callers ended", ended)
	}
	<-told
	<-changes.Revoked()
	select {
	case <-stays.Revoked():
		t.Error("the caller whose entry is as it was has ended")
	default:
	}
	again, err := book.Authenticate(t.Context(), identity.Credentials{Token: plannerToken})
	if again != stays || err != nil {
		t.Errorf("%v, %v", again, err)
	}
	now, err := book.Authenticate(t.Context(), identity.Credentials{Token: batchToken})
	if err != nil || now == changes || !now.MayCall("b.x") || now.MayCall("a.x") {
		t.Errorf("the changed caller: %v, %v", now, err)
	}
	if ended := book.Replace(nil); ended != 2 || book.Len() != 0 {
		t.Errorf("%d callers ended, %d left", ended, book.Len())
	}
	if _, err := book.Authenticate(t.Context(), identity.Credentials{Token: plannerToken}); err == nil {
		t.Error("a removed caller is let in")
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	got, err := identity.Certificates{}.Authenticate(t.Context(), identity.Credentials{URIs: []string{"spiffe://a/b"}, Token: "ignored"})
	if err != nil || got.Principal() != "certificate:spiffe://a/b" || !got.MayCall("x.y") || !got.MayRead("r:") || !got.MayPrompt("p") || got.Revoked() != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := (identity.Certificates{}).Authenticate(t.Context(), identity.Credentials{Token: plannerToken}); err == nil {
		t.Error("no certificate")
	}
}

// FuzzToken: no token but the right one is anybody's, whatever it looks like.
func FuzzToken(f *testing.F) {
	book := identity.NewBook([]identity.Entry{entry("planner", plannerToken, "*")})
	f.Add(plannerToken)
	f.Add(plannerToken + "=")
	f.Add("=" + plannerToken)
	f.Fuzz(func(t *testing.T, token string) {
		got, err := book.Authenticate(context.Background(), identity.Credentials{Token: token})
		if (got != nil) != (token == plannerToken) || (got == nil) == (err == nil) {
			t.Errorf("%q is %v, %v", token, got.Name(), err)
		}
	})
}

// BenchmarkAuthenticate shows what the most callers cost that a file may have.
func BenchmarkAuthenticate(b *testing.B) {
	for _, callers := range []int{10, 1000} {
		var entries []identity.Entry
		for i := range callers {
			entries = append(entries, entry(fmt.Sprint(i), fmt.Sprintf("%s%d", plannerToken, i), "*"))
		}
		book := identity.NewBook(entries)
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := book.Authenticate(b.Context(), identity.Credentials{Token: plannerToken + "0"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestUnmatched finds what is granted and is not there.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	book := identity.NewBook([]identity.Entry{
		{Grant: identity.Grant{Name: "a", Tools: []string{"shop.get", "shop.git", "shop.*"}}},
		{Grant: identity.Grant{Name: "b", Tools: []string{"*"}}},
		{Grant: identity.Grant{Name: "c"}},
		{Grant: identity.Grant{Name: "d", Tools: []string{"stock.*"}}},
	})
	for _, tt := range []struct {
		tools []string
		want  []identity.Unmatched
	}{
		{[]string{"shop.get"}, []identity.Unmatched{{"a", "shop.git"}, {"d", "stock.*"}}},
		{[]string{"shop.git", "stock.add", "shop.get"}, nil},
		{nil, []identity.Unmatched{{"a", "shop.get"}, {"a", "shop.git"}, {"a", "shop.*"}, {"b", "*"}, {"d", "stock.*"}}},
	} {
		if got := book.Unmatched(tt.tools); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.tools, got, tt.want)
		}
	}
}

// TestProcesses: without a callers file the user is the name, and what belongs to it is of no other kind of caller.
func TestProcesses(t *testing.T) {
	t.Parallel()
	got, err := identity.Processes{}.Authenticate(t.Context(), identity.Credentials{Process: &identity.Process{UID: 1000, GID: 7}})
	if err != nil || got.Name() != "uid:1000" || got.Principal() != "process:uid:1000" || got.Facts().Source != identity.SourceUnix {
		t.Errorf("%q %q %+v, %v", got.Name(), got.Principal(), got.Facts(), err)
	}
	var refused *identity.Refusal
	if _, err := (identity.Processes{}).Authenticate(t.Context(), identity.Credentials{}); !errors.As(err, &refused) || refused.Reason != identity.Missing {
		t.Errorf("no process: %v", err)
	}
}
