// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// at returns an endpoint with the secret above.
func at(tb testing.TB, url string) *configv1.ApprovalWebhook {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return &configv1.ApprovalWebhook{Url: url, SecretFile: file}
}

// configured is a configuration with endpoints.
func configured(all ...*configv1.ApprovalWebhook) *configv1.Config {
	return &configv1.Config{Access: &configv1.Access{Approvals: &configv1.Approvals{Webhooks: all}}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const noURL = ".url: must be a URL with a host, without user and fragment"
	for _, tt := range []struct {
		urls []string
		want string // a part of the one fault; empty for none
	}{
		{nil, ""},
		{[]string{"https://hooks.example.com/a?b=c", "http://localhost:8090/", "http://[::1]:1/", "http://127.0.0.9/"}, ""},
		{[]string{"http://hooks.example.com/"}, "webhooks[0].url: must be https; http is for loopback only"},
		{[]string{"http://10.0.0.1/"}, "webhooks[0].url: must be https"},
		{[]string{"https://a/", "ftp://hooks.example.com/"}, "webhooks[1]" + noURL},
		{[]string{"https://me:hunter2@hooks.example.com/"}, "webhooks[0]" + noURL},
		{[]string{"https://hooks.example.com/#a"}, "webhooks[0]" + noURL},
		{[]string{"hooks"}, "webhooks[0]" + noURL},
		{[]string{"https://h/", "https://h/"}, "webhooks[1].url: is also the URL of access.approvals.webhooks[0]"},
	} {
		var all []*configv1.ApprovalWebhook
		for _, url := range tt.urls {
			all = append(all, at(t, url))
		}
		var faults []string
		Check(configured(all...), func(path, message string) { faults = append(faults, path+": "+message) })
		got := strings.Join(faults, "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || len(faults) > 1 || strings.Contains(got, "hunter2") {
			t.Errorf("%v: %q, want %q", tt.urls, got, tt.want)
		}
	}
	var got string
	Check(configured(&configv1.ApprovalWebhook{Url: "https://h/", SecretFile: "none"}), func(path, message string) { got += path + ": " + message })
	if !strings.HasPrefix(got, "access.approvals.webhooks[0].secret_file: ") {
		t.Error(got)
	}
}

// transport is a network of one function.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}
}

func TestSignatureIsThatOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	key, err := parseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	// The example of the specification's libraries.
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	of := func(size int) string { return base64.StdEncoding.EncodeToString(make([]byte, size)) }
	for name, text := range map[string]string{
		"empty": "", "prefix alone": "whsec_", "too short": of(minKey - 1), "too long": of(maxKey + 1), "not base64": "whsec_" + strings.Repeat("!", 40),
		"two lines": of(24) + "\n" + of(24) + "x",
	} {
		if key, err := parseSecret(text); err == nil {
			t.Errorf("%s: %x", name, key)
		} else if text != "" && strings.Contains(err.Error(), strings.TrimPrefix(text, "whsec_")) && len(text) > 6 {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
	for name, text := range map[string]string{"least": of(minKey), "most": of(maxKey), "prefix": "whsec_" + of(32), "white space": " " + of(32) + "\r\n"} {
		if _, err := parseSecret(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSecret(f *testing.F) {
	f.Add(secret)
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		if key, err := parseSecret(text); err == nil && (len(key) < minKey || len(key) > maxKey) {
			t.Errorf("a key of %d bytes", len(key))
		}
	})
}

func TestMessageArrivesSigned(t *testing.T) {
	t.Parallel()
	type arrival struct {
		header http.Header
		body   string
	}
	arrived := make(chan arrival, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- arrival{r.Header, string(body)}
	}))
	t.Cleanup(server.Close)
	one := at(t, server.URL+"/hook?token=not-for-logs")
	s, err := New(Options{Config: configured(one), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })

	verify := func(id, secret string) {
		t.Helper()
		s.Send(id, []byte(`{"type":"approval.waiting"}`))
		got := <-arrived
		key, err := parseSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		if got.header.Get("Webhook-Id") != id || got.body != `{"type":"approval.waiting"}` || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("got %v %s", got.header, got.body)
		}
		if want := sign(key, id, got.header.Get("Webhook-Timestamp"), []byte(got.body)); got.header.Get("Webhook-Signature") != want {
			t.Errorf("signature %s, want %s", got.header.Get("Webhook-Signature"), want)
		}
	}
	verify("a.waiting", secret)
	testkit.Until(t, "the message counts", func() bool { return s.stats() == Stats{Delivered: 1} })

	// Another secret is used once the file has it; one that cannot be read changes nothing.
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	w := reload.NewWatcher(0)
	s.Watch(w)
	outcomes := make(chan reload.Outcome)
	w.OnOutcome(func(_ string, o reload.Outcome) { outcomes <- o })
	watched := make(chan struct{})
	go func() { w.Run(ctx); close(watched) }()
	t.Cleanup(func() { cancel(); <-watched })
	for _, step := range []struct {
		text string
		want reload.Outcome
	}{{other, reload.Applied}, {"no secret", reload.Refused}} {
		if err := os.WriteFile(one.GetSecretFile(), []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Now()
		if got := <-outcomes; got != step.want {
			t.Errorf("%v, want %v", got, step.want)
		}
		verify("b.waiting", other)
	}
}

// TestRetries shows when a message is sent again, and that it is given up.
func TestRetries(t *testing.T) {
	t.Parallel()
	one := at(t, "https://hooks.example/in")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var sent []time.Duration
		s, err := New(Options{Config: configured(one), Log: zap.NewNop(), Transport: transport(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, time.Since(began))
			switch len(sent) {
			case 1:
				return nil, errors.New("refused")
			case 2:
				<-r.Context().Done() // the endpoint hangs
				return nil, r.Context().Err()
			case 3:
				return answer(http.StatusFound), nil
			}
			return answer(http.StatusInternalServerError), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { s.Run(ctx) })
		s.Send("a.waiting", []byte("{}"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(sent) != attempts {
			t.Fatalf("sent %d times: %v", len(sent), sent)
		}
		want := firstWait
		for i := 1; i < len(sent); i++ {
			pause := sent[i] - sent[i-1]
			if i == 2 {
				pause -= attemptTime
			}
			if pause > want || pause < want*3/4 {
				t.Errorf("pause %d is %v, want three quarters of %v to all of it", i, pause, want)
			}
			want = min(4*want, longestWait)
		}
		if sent[len(sent)-1] > 31*time.Minute {
			t.Errorf("the last attempt is after %v", sent[len(sent)-1])
		}
		if diff := cmp.Diff(Stats{GivenUp: 1, Failed: attempts}, s.stats()); diff != "" {
			t.Error(diff)
		}
		cancel()
		ended.Wait()
	})
}

// TestOneMessageDoesNotHoldOthers shows that a message is sent while an earlier one waits for its next attempt, to an endpoint that is
// there while another is away.
func TestOneMessageDoesNotHoldOthers(t *testing.T) {
	t.Parallel()
	endpoints := []*configv1.ApprovalWebhook{at(t, "https://good.example/"), at(t, "https://bad.example/")}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]int{}
		s, err := New(Options{Config: configured(endpoints...), Log: zap.NewNop(), Transport: transport(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			got[r.URL.Host+" "+r.Header.Get("Webhook-Id")]++
			if r.URL.Host == "bad.example" && r.Header.Get("Webhook-Id") == "first" {
				return answer(http.StatusServiceUnavailable), nil
			}
			return answer(http.StatusNoContent), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { s.Run(ctx) })
		s.Send("first", nil)
		s.Send("second", nil)
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		if diff := cmp.Diff(map[string]int{"good.example first": 1, "good.example second": 1, "bad.example first": 1, "bad.example second": 1}, got); diff != "" {
			t.Error(diff)
		}
		mu.Unlock()
		if diff := cmp.Diff(Stats{Delivered: 3, Failed: 1, Queued: 1}, s.stats()); diff != "" {
			t.Error(diff)
		}
		cancel()
		ended.Wait()
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Config: configured(at(t, "https://hooks.example/in")), Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxQueued + 3 {
		s.Send(fmt.Sprint(i), nil)
	}
	if diff := cmp.Diff(Stats{Queued: maxQueued, Dropped: 3}, s.stats()); diff != "" {
		t.Error(diff)
	}
}

func TestNothingWithoutEndpoints(t *testing.T) {
	t.Parallel()
	s, err := New(Options{})
	if s != nil || err != nil {
		t.Fatal(s, err)
	}
	s.Send("a", nil)
	s.Watch(nil)
	s.Run(t.Context())
}

func TestSecretHasToBeThere(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Config: configured(&configv1.ApprovalWebhook{Url: "https://hooks.example", SecretFile: filepath.Join(t.TempDir(), "none")})})
	if err == nil || !strings.Contains(err.Error(), "access.approvals.webhooks[0].secret_file") {
		t.Error(err)
	}
}
