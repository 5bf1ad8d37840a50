// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	plannerToken = "planner-0123456789abcdef"
	batchToken   = "batch-0123456789abcdef"
)

func entry(name, token string, tools ...string) access.Entry {
	return access.Entry{Grant: access.Grant{Name: name, Tools: tools}, Tokens: []access.Digest{sha256.Sum256([]byte(token))}}
}

func TestBook(t *testing.T) {
	t.Parallel()
	const uri = "spiffe://example.org/agent"
	book := access.NewBook([]access.Entry{
		entry("planner", plannerToken, "fleet.*"),
		entry("batch", batchToken, "*"),
		{Grant: access.Grant{Name: "agent", Tools: []string{"lab.echo"}}, URIs: []string{uri}},
	})
	tests := []struct {
		name   string
		shown  access.Credentials
		want   string
		reason access.Reason
	}{
		{"a token", access.Credentials{Token: plannerToken}, "planner", ""},
		{"another", access.Credentials{Token: batchToken}, "batch", ""},
		{"a certificate", access.Credentials{URIs: []string{"spiffe://example.org/other", uri}}, "agent", ""},
		{"both: the token decides", access.Credentials{Token: batchToken, URIs: []string{uri}}, "batch", ""},
		{"a bad token beside a good certificate", access.Credentials{Token: batchToken + "x", URIs: []string{uri}}, "", access.Unknown},
		{"nothing", access.Credentials{}, "", access.Missing},
		{"an unknown certificate", access.Credentials{URIs: []string{"spiffe://example.org/other"}}, "", access.Unknown},
		{"an unknown token", access.Credentials{Token: strings.ToUpper(plannerToken)}, "", access.Unknown},
		{"the beginning of a token", access.Credentials{Token: plannerToken[:len(plannerToken)-1]}, "", access.Unknown},
		{"a token and more", access.Credentials{Token: plannerToken + "="}, "", access.Unknown},
		{"too short", access.Credentials{Token: "0123456789abcde"}, "", access.Malformed},
		{"too long", access.Credentials{Token: strings.Repeat("a", access.MaxToken+1)}, "", access.Malformed},
		{"no token", access.Credentials{Token: plannerToken + "\x00"}, "", access.Malformed},
		{"two words", access.Credentials{Token: plannerToken + " x"}, "", access.Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := book.Authenticate(t.Context(), tt.shown)
			var refused *access.Refusal
			if errors.As(err, &refused) != (tt.reason != "") || refused != nil && refused.Reason != tt.reason || got.Name() != tt.want {
				t.Fatalf("%q, %v", got.Name(), err)
			}
			if refused == nil {
				return
			}
			if !strings.HasPrefix(refused.Challenge, `Bearer realm="outrigger"`) {
				t.Errorf("challenge %q", refused.Challenge)
			}
			if strings.Contains(refused.Challenge, "error=") != (tt.reason != access.Missing) {
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
	some := access.NewIdentity(access.Grant{
		Name: "a", Tools: []string{"fleet.get_*", "lab.echo"}, Resources: []string{"doc://*/public"}, Prompts: []string{"greet"}, Trust: access.Trusted,
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
	everything := access.NewIdentity(access.Grant{Name: "b", Tools: []string{"x", "*"}})
	if !everything.MayCall("any.thing") || everything.Scope() != "" || everything.MayRead("doc://a") || everything.MayPrompt("greet") {
		t.Error("a caller of all tools")
	}
	var anonymous *access.Identity
	if !anonymous.MayCall("a.b") || !anonymous.MayRead("doc://a") || !anonymous.MayPrompt("p") || anonymous.Principal() != "" || anonymous.Trust() != access.Unsaid ||
		anonymous.Revoked() != nil || !anonymous.WhenRevoked(func() {})() || anonymous.Scope() != "" {
		t.Error("a caller without authentication may not do everything")
	}
	same := access.NewIdentity(access.Grant{Name: "c", Tools: []string{"lab.echo", "fleet.get_*", "lab.echo"}})
	if same.Scope() != some.Scope() || same.Principal() == some.Principal() || some.Trust() != access.Trusted {
		t.Errorf("scopes %q and %q, principals %q and %q", same.Scope(), some.Scope(), same.Principal(), some.Principal())
	}
	if access.FromContext(access.NewContext(t.Context(), some)) != some || access.FromContext(t.Context()) != nil {
		t.Error("context")
	}
}

// TestReplace: who stays the same keeps their identity; all others end.
func TestReplace(t *testing.T) {
	t.Parallel()
	book := access.NewBook([]access.Entry{entry("stays", plannerToken, "a.*"), entry("changes", batchToken, "a.*")})
	stays, _ := book.Authenticate(t.Context(), access.Credentials{Token: plannerToken})
	changes, _ := book.Authenticate(t.Context(), access.Credentials{Token: batchToken})
	told := make(chan struct{})
	changes.WhenRevoked(func() { close(told) })

	if ended := book.Replace([]access.Entry{entry("changes", batchToken, "b.*"), entry("stays", plannerToken, "a.*")}); ended != 1 {
		t.Errorf("%d callers ended", ended)
	}
	<-told
	<-changes.Revoked()
	select {
	case <-stays.Revoked():
		t.Error("the caller whose entry is as it was has ended")
	default:
	}
	again, err := book.Authenticate(t.Context(), access.Credentials{Token: plannerToken})
	if again != stays || err != nil {
		t.Errorf("%v, %v", again, err)
	}
	now, err := book.Authenticate(t.Context(), access.Credentials{Token: batchToken})
	if err != nil || now == changes || !now.MayCall("b.x") || now.MayCall("a.x") {
		t.Errorf("the changed caller: %v, %v", now, err)
	}
	if ended := book.Replace(nil); ended != 2 || book.Len() != 0 {
		t.Errorf("%d callers ended, %d left", ended, book.Len())
	}
	if _, err := book.Authenticate(t.Context(), access.Credentials{Token: plannerToken}); err == nil {
		t.Error("a removed caller is let in")
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	got, err := access.Certificates{}.Authenticate(t.Context(), access.Credentials{URIs: []string{"spiffe://a/b"}, Token: "ignored"})
	if err != nil || got.Principal() != "certificate:spiffe://a/b" || !got.MayCall("x.y") || !got.MayRead("r:") || !got.MayPrompt("p") || got.Revoked() != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := (access.Certificates{}).Authenticate(t.Context(), access.Credentials{Token: plannerToken}); err == nil {
		t.Error("no certificate")
	}
}

// FuzzToken: no token but the right one is anybody's, whatever it looks like.
func FuzzToken(f *testing.F) {
	book := access.NewBook([]access.Entry{entry("planner", plannerToken, "*")})
	f.Add(plannerToken)
	f.Add(plannerToken + "=")
	f.Add("=" + plannerToken)
	f.Fuzz(func(t *testing.T, token string) {
		got, err := book.Authenticate(context.Background(), access.Credentials{Token: token})
		if (got != nil) != (token == plannerToken) || (got == nil) == (err == nil) {
			t.Errorf("%q is %v, %v", token, got.Name(), err)
		}
	})
}

// BenchmarkAuthenticate shows what the most callers cost that a file may have.
func BenchmarkAuthenticate(b *testing.B) {
	for _, callers := range []int{10, 1000} {
		var entries []access.Entry
		for i := range callers {
			entries = append(entries, entry(fmt.Sprint(i), fmt.Sprintf("%s%d", plannerToken, i), "*"))
		}
		book := access.NewBook(entries)
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := book.Authenticate(b.Context(), access.Credentials{Token: plannerToken + "0"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestUnmatched finds what is granted and is not there.
func TestUnmatched(t *testing.T) {
	t.Parallel()
	book := access.NewBook([]access.Entry{
		{Grant: access.Grant{Name: "a", Tools: []string{"shop.get", "shop.git", "shop.*"}}},
		{Grant: access.Grant{Name: "b", Tools: []string{"*"}}},
		{Grant: access.Grant{Name: "c"}},
		{Grant: access.Grant{Name: "d", Tools: []string{"stock.*"}}},
	})
	for _, tt := range []struct {
		tools []string
		want  []access.Unmatched
	}{
		{[]string{"shop.get"}, []access.Unmatched{{"a", "shop.git"}, {"d", "stock.*"}}},
		{[]string{"shop.git", "stock.add", "shop.get"}, nil},
		{nil, []access.Unmatched{{"a", "shop.get"}, {"a", "shop.git"}, {"a", "shop.*"}, {"b", "*"}, {"d", "stock.*"}}},
	} {
		if got := book.Unmatched(tt.tools); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.tools, got, tt.want)
		}
	}
}
