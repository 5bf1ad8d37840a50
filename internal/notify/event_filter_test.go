// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		methods   []string
		fits, not []string
	}{
		{"none lets all through", nil, []string{"a", "notifications/x"}, nil},
		{"a name", []string{"a.b"}, []string{"a.b"}, []string{"a", "a.bc", "axb", "A.b"}},
		{"a prefix", []string{"orders/*"}, []string{"orders/", "orders/new", "orders/a/b"}, []string{"orders", "order/x", "x/orders/y"}},
		{"a suffix", []string{"*/new"}, []string{"/new", "orders/new"}, []string{"new", "orders/newer"}},
		{"the middle", []string{"a*c"}, []string{"ac", "abc", "acc", "a/b/c"}, []string{"a", "c", "abcd"}},
		{"no overlap", []string{"aba*aba"}, []string{"abaaba", "abaxaba"}, []string{"aba", "ababa"}},
		{"runs in their order", []string{"*a*b*"}, []string{"ab", "xaxbx", "bab"}, []string{"ba", "a", "b"}},
		{"a star alone", []string{"*"}, []string{"a", "é/ü"}, nil},
		{"two stars", []string{"a**"}, []string{"a", "ab"}, []string{"b"}},
		{"one of many", []string{"x", "y*", "z"}, []string{"x", "y1", "z"}, []string{"w", "xz"}},
		{"no other magic", []string{"a?[b]\\"}, []string{"a?[b]\\"}, []string{"axb", "a?b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bus := notify.NewBus(notify.BusOptions{})
			subscribeBus(t, bus, tt.methods...)
			for _, method := range tt.fits {
				publishEvent(t, bus, notify.Event{Method: method}, 1)
			}
			for _, method := range tt.not {
				publishEvent(t, bus, notify.Event{Method: method}, 0)
			}
		})
	}
}

func TestBusFilterRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		methods []string
		index   int
	}{
		{"an empty pattern", []string{"a", ""}, 1},
		{"a long pattern", []string{strings.Repeat("a", notify.MaxMethodBytes+1)}, 0},
		{"many patterns", slices.Repeat([]string{"a"}, notify.MaxPatterns+1), -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bus := notify.NewBus(notify.BusOptions{})
			_, err := bus.Subscribe(tt.methods)
			var filter *notify.FilterError
			if !errors.As(err, &filter) || filter.Index != tt.index {
				t.Errorf("got %v, want a FilterError at %d", err, tt.index)
			}
			if n := bus.Stats().Subscribers; n != 0 {
				t.Errorf("%d subscribers after a refusal", n)
			}
		})
	}
	bus := notify.NewBus(notify.BusOptions{})
	subscribeBus(t, bus, slices.Repeat([]string{strings.Repeat("a", notify.MaxMethodBytes)}, notify.MaxPatterns)...)
}

// TestGlobsAgreeWithRegexp holds the matcher to another reading of the same
// words.
func TestGlobsAgreeWithRegexp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab/*]{1,8}`).Draw(t, "pattern")
		method := rapid.StringMatching(`[ab/]{1,10}`).Draw(t, "method")
		want := regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`).MatchString(method)
		bus := notify.NewBus(notify.BusOptions{})
		s, err := bus.Subscribe([]string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := bus.Publish(context.Background(), notify.Event{Method: method})
		if err != nil || (got == 1) != want {
			t.Fatalf("%q on %q: %d, %v; want %v", pattern, method, got, err, want)
		}
	})
}
