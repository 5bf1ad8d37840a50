// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

func TestSleepTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		res, err := lab{}.Sleep(t.Context(), connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(42 * time.Second), Nonce: "n"}))
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 42*time.Second || res.Msg.GetSlept().AsDuration() != took || res.Msg.GetNonce() != "n" {
			t.Errorf("took %v and answered %v", took, res.Msg)
		}
	})
}

func TestSleepAndWatchEndEarly(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, <-chan struct{}) error{
		"sleep": func(ctx context.Context, _ <-chan struct{}) error {
			_, err := lab{}.Sleep(ctx, connect.NewRequest(&demov1.SleepRequest{Duration: durationpb.New(10 * time.Minute)}))
			return err
		},
		"watch": func(ctx context.Context, stopping <-chan struct{}) error {
			f := newFleet(Options{}.withDefaults(), stopping)
			return f.watch(ctx, &demov1.WatchVehiclesRequest{Rounds: 1000, Interval: durationpb.New(time.Minute)},
				func(*demov1.VehicleUpdate) error { return nil })
		},
	}
	for name, call := range calls {
		for _, test := range []struct {
			name  string
			begin func(ctx context.Context, stop func()) (context.Context, context.CancelFunc)
			want  connect.Code
		}{
			{"cancelled", func(ctx context.Context, _ func()) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(7*time.Second, cancel)
				return ctx, cancel
			}, connect.CodeCanceled},
			{"deadline", func(ctx context.Context, _ func()) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 7*time.Second)
			}, connect.CodeDeadlineExceeded},
			{"server closes", func(ctx context.Context, stop func()) (context.Context, context.CancelFunc) {
				time.AfterFunc(7*time.Second, stop)
				return ctx, func() {}
			}, connect.CodeUnavailable},
		} {
			if name == "sleep" && test.want == connect.CodeUnavailable {
				continue // a unary call in flight may finish
			}
			t.Run(name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					stopping := make(chan struct{})
					ctx, cancel := test.begin(t.Context(), func() { close(stopping) })
					defer cancel()
					begin := time.Now()
					err := call(ctx, stopping)
					if got := connect.CodeOf(err); err == nil || got != test.want {
						t.Errorf("ended with %v, want %v", err, test.want)
					}
					if took := time.Since(begin); took != 7*time.Second {
						t.Errorf("ended after %v, want 7s", took)
					}
				})
			})
		}
	}
}

func TestWatchKeepsItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(Options{}.withDefaults(), nil)
		begin := time.Now()
		var at []time.Duration
		if err := f.watch(t.Context(), &demov1.WatchVehiclesRequest{VehicleIds: []int64{101}}, func(u *demov1.VehicleUpdate) error {
			at = append(at, time.Since(begin))
			if int(u.GetRound()) != len(at) {
				t.Errorf("update %d is of round %d", len(at), u.GetRound())
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(at) != 3 || at[0] != 0 || at[1] != 200*time.Millisecond || at[2] != 400*time.Millisecond {
			t.Errorf("updates at %v", at)
		}
	})
}
