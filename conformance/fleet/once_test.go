// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"google.golang.org/protobuf/types/known/durationpb"
)

func consents() state.OnceOptions {
	return state.OnceOptions{Name: "consents", MaxBytes: 4 << 20, MaxAge: time.Hour}
}

var _ keys.SingleUse = (*state.Once)(nil)

// TestATokenIsUsedOnce: what holds for the memory of one process holds for that of all replicas.
func TestATokenIsUsedOnce(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	sealer := newSealer(t)
	shared := make([]keys.SingleUse, 3)
	for i := range shared {
		c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()}), Sealer: sealer})
		shared[i] = c.Once(consents())
		healthy(t, c)
	}
	memory := keys.NewSpent(keys.SpentOptions{})
	for _, row := range []struct {
		name     string
		replicas []keys.SingleUse
	}{{"memory", []keys.SingleUse{memory, memory, memory}}, {"JetStream", shared}} {
		t.Run(row.name, func(t *testing.T) {
			spend := func(at int, token string, until time.Time) bool {
				fresh, err := row.replicas[at].Spend(t.Context(), token, until)
				if err != nil {
					t.Fatal(err)
				}
				return fresh
			}
			later := time.Now().Add(time.Hour)
			if !spend(0, "a", later) || spend(1, "a", later) || spend(0, "a", later) {
				t.Error("a token is not used exactly once")
			}
			if spend(2, "old", time.Now().Add(-time.Second)) {
				t.Error("a token that has expired is used")
			}
			const tokens, callers = 40, 6
			var uses [tokens]atomic.Int32
			var running sync.WaitGroup
			for caller := range callers {
				running.Go(func() {
					for i := range tokens {
						fresh, err := row.replicas[caller%3].Spend(t.Context(), fmt.Sprintf("token %d", i), later)
						if err != nil {
							t.Error(err)
						}
						if fresh {
							uses[i].Add(1)
						}
					}
				})
			}
			running.Wait()
			for i := range uses {
				if got := uses[i].Load(); got != 1 {
					t.Errorf("token %d was used %d times", i, got)
				}
			}
		})
	}
}

// TestATokenWithoutAStore: nothing counts as used that was not stored, and nothing as unused that may have been used.
func TestATokenWithoutAStore(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), OperationTimeout: durationpb.New(500 * time.Millisecond)})})
	once := c.Once(consents())
	healthy(t, c)
	later := time.Now().Add(time.Hour)
	if fresh, err := once.Spend(t.Context(), "before", later); err != nil || !fresh {
		t.Fatalf("%v, %v", fresh, err)
	}
	n.stop()
	for _, token := range []string{"before", "meanwhile"} {
		if fresh, err := once.Spend(t.Context(), token, later); fresh || !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("%s, without NATS: %v, %v", token, fresh, err)
		}
	}
	n.start()
	healthy(t, c)
	if fresh, err := once.Spend(t.Context(), "before", later); err != nil || fresh {
		t.Errorf("used before: %v, %v", fresh, err)
	}
	if fresh, err := once.Spend(t.Context(), "meanwhile", later); err != nil || !fresh {
		t.Errorf("not used before: %v, %v", fresh, err)
	}
}

// TestFullOfTokens: a token that finds no room is not used.
func TestFullOfTokens(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	o := consents()
	o.MaxBytes = 4 << 10
	once := c.Once(o)
	healthy(t, c)
	later := time.Now().Add(time.Hour)
	for i := range 100 {
		fresh, err := once.Spend(t.Context(), fmt.Sprint(i), later)
		if errors.Is(err, state.ErrFull) && !fresh && i > 5 {
			return
		}
		if err != nil || !fresh {
			t.Fatalf("token %d: %v, %v", i, fresh, err)
		}
	}
	t.Error("100 tokens found room in 4 KiB")
}

// TestABucketThatForgetsIsRefused: a token that is forgotten before it expires could be used again.
func TestABucketThatForgetsIsRefused(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	short := consents()
	short.MaxAge = time.Minute
	first := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	first.Once(short)
	healthy(t, first)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	once := c.Once(consents())
	testkit.Until(t, "it says why", func() bool { return strings.Contains(c.Health().Why, "deletes values after 1m0s") })
	if fresh, err := once.Spend(t.Context(), "a", time.Now().Add(time.Hour)); fresh || !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("%v, %v", fresh, err)
	}
}
