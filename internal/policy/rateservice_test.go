// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// patience is far more than loopback takes, also on a busy machine.
const patience = 2 * time.Minute

// asked are the settings of a service by default, with a timeout.
func asked(timeout time.Duration) *configv1.RateService {
	r := config.Defaults(config.Serve).GetRateService()
	r.Timeout = durationpb.New(timeout)
	return r
}

// dial returns a client of a server, over one connection.
func dial(t *testing.T, url string) *backend.Client {
	t.Helper()
	target, err := backend.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{MaxHTTP2Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// fixed answers the same to everything.
func fixed(r *ratelimitv1.RateLimitResponse) ratetest.Answer {
	return func(context.Context, *ratelimitv1.RateLimitRequest) (*ratelimitv1.RateLimitResponse, error) {
		return r, nil
	}
}

const over = ratelimitv1.RateLimitResponse_OVER_LIMIT

// descriptorStatus is the status of one descriptor, with a limit of 5 per hour.
func descriptorStatus(code ratelimitv1.RateLimitResponse_Code, reset *durationpb.Duration) *ratelimitv1.RateLimitResponse_DescriptorStatus {
	return &ratelimitv1.RateLimitResponse_DescriptorStatus{
		Code: code, DurationUntilReset: reset,
		CurrentLimit: &ratelimitv1.RateLimitResponse_RateLimit{RequestsPerUnit: 5, Unit: ratelimitv1.RateLimitResponse_RateLimit_HOUR},
	}
}

// TestOutcomes asks a real server in each of its states, once for each way to fail.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer ratetest.Answer
		stop   bool
		// code, wait and text are the canonical error, whether or not the service counts as failed.
		code errmap.Code
		wait time.Duration
		text string
		// fails: the service did not answer, so the setting decides.
		fails bool
		count func(policy.RateServiceStats) uint64
	}{
		{
			name: "under the limit", answer: ratetest.OK(),
			count: func(s policy.RateServiceStats) uint64 { return s.OK },
		},
		{
			name:   "over a limit",
			answer: fixed(&ratelimitv1.RateLimitResponse{OverallCode: over, Statuses: []*ratelimitv1.RateLimitResponse_DescriptorStatus{descriptorStatus(over, durationpb.New(7*time.Second))}}),
			code:   errmap.RateLimited, wait: 7 * time.Second, text: "Rate limit exceeded: the shared limit of this caller is 5 per hour",
			count: func(s policy.RateServiceStats) uint64 { return s.OverLimit },
		},
		{
			name: "over two limits: the one that is reset last counts",
			answer: fixed(&ratelimitv1.RateLimitResponse{OverallCode: over, Statuses: []*ratelimitv1.RateLimitResponse_DescriptorStatus{
				descriptorStatus(over, durationpb.New(time.Second)), descriptorStatus(ratelimitv1.RateLimitResponse_OK, durationpb.New(time.Hour)), descriptorStatus(over, durationpb.New(9*time.Second)),
			}}),
			code: errmap.RateLimited, wait: 9 * time.Second, text: "Rate limit exceeded: the shared limit of shop.get for this caller is 5 per hour",
			count: func(s policy.RateServiceStats) uint64 { return s.OverLimit },
		},
		{
			name: "over a limit without a time", answer: fixed(&ratelimitv1.RateLimitResponse{OverallCode: over, Statuses: []*ratelimitv1.RateLimitResponse_DescriptorStatus{{}, {Code: over}}}),
			code: errmap.RateLimited, wait: time.Second, text: "Rate limit exceeded: the shared limit of shop.get",
			count: func(s policy.RateServiceStats) uint64 { return s.OverLimit },
		},
		{
			name: "over a limit that is not named", answer: fixed(&ratelimitv1.RateLimitResponse{OverallCode: over}),
			code: errmap.RateLimited, wait: time.Second, text: "Rate limit exceeded: a limit that replicas share",
			count: func(s policy.RateServiceStats) uint64 { return s.OverLimit },
		},
		{
			name: "more statuses than questions", answer: fixed(&ratelimitv1.RateLimitResponse{OverallCode: over, Statuses: []*ratelimitv1.RateLimitResponse_DescriptorStatus{{}, {}, {}, descriptorStatus(over, durationpb.New(0))}}),
			code: errmap.RateLimited, wait: time.Millisecond, text: "Rate limit exceeded: a limit that replicas share",
			count: func(s policy.RateServiceStats) uint64 { return s.OverLimit },
		},
		{
			name: "an error", answer: ratetest.Failing(status.Error(codes.Unavailable, "no redis")), fails: true,
			count: func(s policy.RateServiceStats) uint64 { return s.Errors },
		},
		{
			name: "no decision", answer: fixed(&ratelimitv1.RateLimitResponse{}), fails: true,
			count: func(s policy.RateServiceStats) uint64 { return s.Errors },
		},
		{
			name: "no answer in time", answer: ratetest.Hanging(), fails: true,
			count: func(s policy.RateServiceStats) uint64 { return s.Timeouts },
		},
		{
			name: "not running", answer: ratetest.OK(), stop: true, fails: true,
			count: func(s policy.RateServiceStats) uint64 { return s.Errors },
		},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{false: ", fail open", true: ", fail closed"}[closed], func(t *testing.T) {
				t.Parallel()
				peer := ratetest.Start(t)
				peer.Answer(tc.answer)
				if tc.stop {
					peer.Stop()
				}
				r := asked(patience)
				if closed {
					r.Failure = new("closed")
				}
				if tc.name == "no answer in time" {
					r.Timeout = durationpb.New(20 * time.Millisecond)
				}
				s := policy.NewRateService(dial(t, peer.URL()), r, zap.NewNop())
				begun := time.Now()
				got := s.Check(t.Context(), "caller:ann", "shop.get", false)
				if took := time.Since(begun); took > patience/2 {
					t.Errorf("it took %v", took)
				}
				want := struct {
					code errmap.Code
					wait time.Duration
					text string
				}{tc.code, tc.wait, tc.text}
				if tc.fails && closed {
					want.code, want.wait, want.text = errmap.Unavailable, time.Second, "Rate limit service unavailable: requests are rejected until it answers"
				}
				switch {
				case want.code == "" && got != nil:
					t.Errorf("got %v, want no error", got)
				case want.code != "" && (got == nil || got.Code != want.code || got.RetryAfter != want.wait || got.Message != want.text):
					t.Errorf("got %+v, want %+v", got, want)
				}
				if n := tc.count(s.Stats()); n != 1 {
					t.Errorf("counted %d, want 1: %+v", n, s.Stats())
				}
				if n := s.Stats().Took.Count(); n != 1 {
					t.Errorf("%d durations, want 1", n)
				}
			})
		}
	}
}

func TestDescriptors(t *testing.T) {
	t.Parallel()
	tenant := func(claims map[string]any) *identity.Identity {
		return identity.NewIdentityOf(identity.Grant{Name: "ann", Tools: []string{"*"}}, identity.Facts{Claims: claims})
	}
	for _, tc := range []struct {
		name   string
		who    *identity.Identity
		claim  string
		tool   string
		isPart bool
		want   []string
	}{
		{name: "a call", tool: "shop.get", want: []string{"caller=ann", "tool=shop.get", "caller=ann tool=shop.get"}},
		{name: "a listing", want: []string{"caller=ann"}},
		{name: "a call within a request", tool: "shop.get", isPart: true, want: []string{"tool=shop.get", "caller=ann tool=shop.get"}},
		{
			name: "a tenant", who: tenant(map[string]any{"tenant": "acme"}), tool: "shop.get",
			want: []string{"tenant=acme caller=ann", "tenant=acme tool=shop.get", "tenant=acme caller=ann tool=shop.get"},
		},
		{name: "a tenant's listing", who: tenant(map[string]any{"tenant": "acme"}), want: []string{"tenant=acme caller=ann"}},
		{name: "a claim of another name", who: tenant(map[string]any{"tenant": "acme", "org_id": "7"}), claim: "org_id", want: []string{"tenant=7 caller=ann"}},
		{name: "no text", who: tenant(map[string]any{"tenant": 7.0}), want: []string{"caller=ann"}},
		{name: "empty", who: tenant(map[string]any{"tenant": ""}), want: []string{"caller=ann"}},
		{name: "no claims", who: tenant(nil), want: []string{"caller=ann"}},
		{
			name: "a tenant that is too long", who: tenant(map[string]any{"tenant": strings.Repeat("a", 257)}),
			want: []string{"tenant=" + hashOf(strings.Repeat("a", 257)) + " caller=ann"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			peer := ratetest.Start(t)
			r := asked(patience)
			r.Domain = new("shop")
			if tc.claim != "" {
				r.TenantClaim = &tc.claim
			}
			s := policy.NewRateService(dial(t, peer.URL()), r, zap.NewNop())
			ctx := t.Context()
			if tc.who != nil {
				ctx = identity.NewContext(ctx, tc.who)
			}
			if err := s.Check(ctx, "caller:ann", tc.tool, tc.isPart); err != nil {
				t.Fatal(err)
			}
			asked := peer.Asked()
			if len(asked) != 1 || asked[0].GetHitsAddend() != 1 || asked[0].GetDomain() != "shop" {
				t.Fatalf("asked %v", asked)
			}
			var got []string
			for _, d := range asked[0].GetDescriptors() {
				got = append(got, strings.ReplaceAll(ratetest.Text(d), hashOf("caller:ann"), "ann"))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecovery stops the server and starts it again: nothing has to be done for the service to
// be asked again.
func TestRecovery(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	peer.Answer(ratetest.Counting("caller", 1, time.Minute))
	r := asked(patience)
	r.Failure, r.OpenFor, r.MaxFailures = new("closed"), durationpb.New(10*time.Millisecond), new(int32(2))
	s := policy.NewRateService(dial(t, peer.URL()), r, zap.NewNop())
	check := func() errmap.Code {
		if err := s.Check(t.Context(), "a", "", false); err != nil {
			return err.Code
		}
		return ""
	}
	if first, second := check(), check(); first != "" || second != errmap.RateLimited {
		t.Fatalf("got %q and %q", first, second)
	}
	peer.Stop()
	for range 3 {
		if code := check(); code != errmap.Unavailable {
			t.Errorf("stopped: %q", code)
		}
	}
	if !s.Stats().Failing || s.Probe(t.Context()) == nil {
		t.Errorf("stopped, and %+v", s.Stats())
	}
	peer.Restart(t)
	testkit.Until(t, "it is asked again", func() bool { return check() == errmap.RateLimited })
	if s.Stats().Failing || s.Probe(t.Context()) != nil {
		t.Errorf("running, and %+v", s.Stats())
	}
}

// TestTheRateServiceOverTLS verifies the service's certificate, and shows one of the sidecar.
func TestTheRateServiceOverTLS(t *testing.T) {
	t.Parallel()
	ours, others := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	shown := ours.Issue(t, tlstest.Leaf{Hosts: []string{"ratelimit.example.com"}})
	client := ours.Issue(t, tlstest.Leaf{})
	peer := ratetest.StartTLS(t, &tls.Config{
		Certificates: []tls.Certificate{shown.Certificate(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool, MinVersion: tls.VersionTLS12,
	})
	for _, tt := range []struct {
		name string
		tls  *configv1.RateServiceTls
		want string
	}{
		{"all is well", &configv1.RateServiceTls{CaFile: ours.File, CertFile: client.CertFile, KeyFile: client.KeyFile, ServerName: "ratelimit.example.com"}, ""},
		{"another authority", &configv1.RateServiceTls{CaFile: others.File, CertFile: client.CertFile, KeyFile: client.KeyFile, ServerName: "ratelimit.example.com"}, new(x509.UnknownAuthorityError).Error()},
		{"another name", &configv1.RateServiceTls{CaFile: ours.File, CertFile: client.CertFile, KeyFile: client.KeyFile}, "127.0.0.1"},
		{"no certificate", &configv1.RateServiceTls{CaFile: ours.File, ServerName: "ratelimit.example.com"}, "unreachable: "},
	} {
		r := asked(5 * time.Second)
		r.Url, r.Tls = peer.URL(), tt.tls
		dialed, err := policy.RateServiceClient(r, "0.0.0")
		if err != nil {
			t.Fatal(err)
		}
		err = policy.NewRateService(dialed, r, zap.NewNop()).Probe(t.Context())
		_ = dialed.Close()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
