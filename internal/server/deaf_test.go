// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// deaf is a backend whose calls do not hear that their contexts have ended.
type deaf struct {
	bridge.Upstream

	entered, release chan struct{}
}

// Call implements [bridge.Upstream].
func (d *deaf) Call(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
	d.entered <- struct{}{}
	<-d.release
	return nil, errmap.New(errmap.Unavailable)
}

// TestACallThatOutlivesTheDrain does not hear that it is over: it has its one line in the audit trail at the end of the grace
// period, the log names it and does not count it among the calls that were answered, and the process ends with an error.
func TestACallThatOutlivesTheDrain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	backend := &deaf{entered: make(chan struct{}), release: make(chan struct{})}
	core, log := observer.New(zap.WarnLevel)
	var ended error
	rig := mcptest.Start(t, mcptest.Options{
		Log: zap.New(core), Ended: func(err error) { ended = err },
		Configure: func(c *configv1.Config) {
			withTrail(path)(c)
			c.Limits.DrainGrace = durationpb.New(time.Millisecond)
		},
		Adjust: server.Adjust{Backend: func(u bridge.Upstream, own bridge.Native) (bridge.Upstream, bridge.Native) {
			backend.Upstream = u
			return backend, own
		}},
	})
	answered := make(chan *bridge.Response, 1)
	go func() {
		answered <- rig.App().Call(context.WithoutCancel(t.Context()), "test", "test", "lab.echo", []byte(`{}`), nil, content.Wanted{})
	}()
	<-backend.entered
	rig.End()
	if ended == nil || !strings.Contains(ended.Error(), "1 calls did not end") {
		t.Errorf("the process ends with %v", ended)
	}
	counts := log.FilterMessage("grace period over: calls in flight were answered UNAVAILABLE").All()
	if len(counts) != 1 || counts[0].ContextMap()["calls"] != int64(0) || counts[0].ContextMap()["not_answered"] != int64(1) ||
		!strings.Contains(fmt.Sprint(counts[0].ContextMap()["unfinished"]), "lab.echo") {
		t.Errorf("the log says %v", counts)
	}
	close(backend.release)
	<-answered
	want := []entry{{Operation: "call_tool", Tool: "lab.echo", Decision: "allowed", Code: "UNAVAILABLE"}}
	if got := entriesOf(t, path)[""]; !slices.Equal(got, want) {
		t.Errorf("the trail has %+v, want %+v", got, want)
	}
}
