// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokenShowsNothing in any text form, of itself and of the context that has it.
func TestTokenShowsNothing(t *testing.T) {
	t.Parallel()
	const secret = "canary-5d1e"
	ctx := WithToken(t.Context(), secret)
	held, _ := ctx.Value(tokenKey{}).(*token)
	if tokenFrom(ctx) != secret {
		t.Fatal("the token is not there")
	}
	text, err := json.Marshal(map[string]any{"token": held})
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := held.MarshalText()
	for _, got := range []string{
		fmt.Sprint(held), fmt.Sprintf("%v %+v %#v %s %q %x %d", held, held, held, held, held, held, held), string(text), string(plain),
		fmt.Sprint(ctx), fmt.Sprintf("%+v %#v", ctx, ctx), held.String(), held.GoString(),
		fmt.Sprintf("%v", struct{ T *token }{held}), fmt.Sprintf("%+v", []any{held}),
	} {
		if strings.Contains(got, secret) || strings.Contains(got, fmt.Sprintf("%x", secret)) {
			t.Errorf("shown: %s", got)
		}
	}
}

// TestTokenEndsWithItsRequest, also for work that goes on.
func TestTokenEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		request, end := context.WithCancel(t.Context())
		ctx := WithToken(request, "canary")
		task := context.WithoutCancel(ctx)
		if tokenFrom(task) != "canary" {
			t.Error("it ends too early")
		}
		end()
		synctest.Wait()
		if tokenFrom(task) != "" || tokenFrom(ctx) != "" {
			t.Error("it outlives the request")
		}
	})
}

// TestAwayPause: one attempt for each pause, which grows to its limit, and one success
// ends it.
func TestAwayPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a away
		failed := errors.New("x")
		for range awayAfter {
			if a.wait(time.Now()) != 0 {
				t.Fatal("away too early")
			}
			a.saw(failed, time.Now())
		}
		for _, seconds := range []int{1, 2, 4, 8, 10, 10} {
			wait := a.wait(time.Now())
			if wait != time.Duration(seconds)*time.Second {
				t.Fatalf("waits %v, want %d s", wait, seconds)
			}
			time.Sleep(wait)
			if a.wait(time.Now()) != 0 || a.wait(time.Now()) == 0 {
				t.Fatal("not exactly one attempt")
			}
			a.saw(failed, time.Now())
		}
		time.Sleep(awayMax)
		a.saw(nil, time.Now())
		if a.wait(time.Now()) != 0 {
			t.Error("away after a success")
		}
		for range awayAfter {
			a.saw(&awayError{after: 5 * time.Second}, time.Now())
		}
		if wait := a.wait(time.Now()); wait != 5*time.Second {
			t.Errorf("waits %v, the server said 5 s", wait)
		}
	})
}

func TestKept(t *testing.T) {
	t.Parallel()
	for life, want := range map[time.Duration]time.Duration{
		time.Hour: time.Hour - 30*time.Second, 40 * time.Second: 30 * time.Second, 4 * time.Second: 3 * time.Second, 0: 0,
	} {
		if got := kept(life); got != want {
			t.Errorf("%v: %v, want %v", life, got, want)
		}
	}
}

// FuzzResponse: whatever a token endpoint answers, there is a token for a header, or an
// error that does not have the caller's token.
func FuzzResponse(f *testing.F) {
	const subject = "canary-5d1e"
	for _, seed := range []string{
		`{"access_token":"x","token_type":"Bearer","expires_in":"30"}`, `{"error":"invalid_grant"}`, `{"access_token":"` + subject + `","token_type":"bearer"}`,
		`{"error":"` + subject + `"}`, `[]`, `{"expires_in":1e400}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, life, err := readToken(body, subject)
		if err == nil && (!strings.HasPrefix(got.authorization, "Bearer ") || got.authorization == "Bearer "+subject || !isToken(got.authorization[7:]) || life < 0 || life > maxLife) {
			t.Errorf("%q for %v", got.authorization, life)
		}
		rejected, _, rejectedErr := readRejection(400, body)
		for _, e := range []error{err, rejectedErr} {
			if e != nil && strings.Contains(e.Error(), subject) {
				t.Errorf("the token is shown: %v", e)
			}
		}
		if rejectedErr == nil && strings.Contains(rejected.rejected.canonical("").Message, subject) {
			t.Error("the token is shown")
		}
	})
}

// FuzzKeys: whatever a key file has, it is keys or an error.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte(`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := parseKeys(text)
		if err == nil && (k.signer == nil || len(k.ids) == 0 || strings.Contains(string(k.published), `"d":`)) {
			t.Errorf("%+v", k)
		}
	})
}
