// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestNativeSource(t *testing.T) {
	t.Parallel()
	native := &source.Native{Tools: []*outriggerv1.Tool{nativeTool("a")}}
	from := source.NewNative("tools at x", func(context.Context) (*source.Native, error) { return native, nil })
	got, err := from.Load(t.Context())
	if err != nil || got.Native != native || got.Source != "tools at x" || from.Name() != "tools at x" || got.Services == nil {
		t.Errorf("loaded %+v, %v", got, err)
	}
	got, err = source.NewNative("plain", func(context.Context) (*source.Native, error) { return nil, nil }).Load(t.Context())
	if err != nil || got.Native != nil {
		t.Errorf("loaded %+v, %v", got, err)
	}
	cause := errors.New("refused")
	_, err = source.NewNative("down", func(context.Context) (*source.Native, error) { return nil, cause }).Load(t.Context())
	if failed := asError[*source.Error](t, err); failed.Source != "down" || failed.Step != "list tools" || failed.Permanent || !errors.Is(err, cause) {
		t.Errorf("error %+v", failed)
	}
	own := &source.Error{Source: "own", Step: "describe", Permanent: true, Cause: cause}
	if _, err = source.NewNative("down", func(context.Context) (*source.Native, error) { return nil, own }).Load(t.Context()); !errors.Is(err, own) {
		t.Errorf("error %v", err)
	}
}

func TestANativeSourceDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := source.NewNative("slow", func(ctx context.Context) (*source.Native, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}).Load(t.Context())
		if took := time.Since(start); took != 10*time.Second || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no complete response within 10s") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestLiveServesNativeTools(t *testing.T) {
	t.Parallel()
	from := source.NewNative("tools at x", func(context.Context) (*source.Native, error) {
		return nativeLoad("fixture", nativeTool("a")).Native, nil
	})
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	toolOf(t, live.Current(), "fixture.a")
	if status := live.Status(); len(status.Sources) != 1 || status.Sources[0].Tools != 1 || status.Sources[0].Services != 0 {
		t.Errorf("status %+v", status)
	}
	_, _, err := live.Register(t.Context(), registration(named("fixture.a")))
	if got := asError[*RegistrationError](t, err); got.Reason != Invalid {
		t.Errorf("error %v", got)
	}
}
