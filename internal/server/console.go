// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/console"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// newConsole joins the console to what it shows. Call it before the admin listener is made, and use it after that.
func (a *App) newConsole(drain admin.Drainer) *console.Service {
	return console.New(a.live, console.Options{
		Bridge: a.bridge, Stats: a.stats, Lists: a.says.Lists, JSON: front.JSONLimits(a.cfg), RunsOn: a.taskAfter,
		Limits: a.limitMetrics(), Ready: a.ready, State: func() string { return a.life.State().String() },
		Certificates: a.certificates, Find: a.findCall, Callers: a.front.Callers, URL: a.callersURL, IsGated: a.gate.Holds,
		Operators: operatorsOf{a}, Trust: a.shared.Trust(), Drain: drain, Refresh: a.operatorRefresh,
		HasCallers: a.front.Authenticates(), Confirms: a.confirms,
		LongLived: a.longLived,
		Fingerprint: func() string {
			if now := a.live.Current(); now != nil {
				return now.Fingerprint()
			}
			return ""
		},
		Approvals: a.approvals, Approver: a.front.Approver, Shown: a.shownToApprover,
		Ending: a.life.Stopped(), WatchLog: a.kept.Watch,
	})
}

// longLived are the sessions, tasks or streams of this process.
func (a *App) longLived(kind adminv1.LongLivedKind) []*adminv1.LongLived {
	switch kind {
	case adminv1.LongLivedKind_LONG_LIVED_KIND_SESSION:
		return a.sessions.LongLived()
	case adminv1.LongLivedKind_LONG_LIVED_KIND_TASK:
		return a.shared.Tasks.LongLived()
	case adminv1.LongLivedKind_LONG_LIVED_KIND_STREAM:
		return a.bridge.Streams()
	case adminv1.LongLivedKind_LONG_LIVED_KIND_UNSPECIFIED:
	}
	return nil
}

// certificates are those of the listeners, with their ends.
func (a *App) certificates() []*adminv1.Certificate {
	var out []*adminv1.Certificate
	all := a.front.Certificates()
	maps.Copy(all, a.backend.Certificates())
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, &adminv1.Certificate{Name: name, NotAfter: timestamppb.New(all[name])})
	}
	return out
}

// callersURL is where callers find the main listener on this machine; empty without one on TCP.
func (a *App) callersURL() string {
	for _, one := range a.front.All() {
		if tcp, ok := one.Addr().(*net.TCPAddr); ok && one.Name() == front.Main {
			host := tcp.IP.String()
			if tcp.IP.IsUnspecified() {
				host = "localhost"
			}
			return map[bool]string{false: "http://", true: "https://"}[one.HasTLS()] + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
		}
	}
	return ""
}

// operatorsOf implements [console.Operators].
type operatorsOf struct{ app *App }

// May implements [console.Operators].
func (o operatorsOf) May(ctx context.Context, role admin.Role) bool {
	return o.app.probes.May(ctx, role)
}

// Operator implements [console.Operators].
func (o operatorsOf) Operator(ctx context.Context, peer string) string {
	return o.app.probes.Operator(ctx, peer)
}

// HasOperators implements [console.Operators].
func (o operatorsOf) HasOperators() bool { return o.app.front.Operators() != nil }

// IsSignedIn implements [console.Operators].
func (o operatorsOf) IsSignedIn(ctx context.Context) bool { return o.app.front.IsSignedIn(ctx) }

// findCall returns what is known of a call.
func (a *App) findCall(_ context.Context, id uint64) *adminv1.GetCallResponse {
	found, ok := a.bridge.FindCall(id)
	if !ok {
		return nil
	}
	call := found.Call
	out := &adminv1.GetCallResponse{Call: call}
	out.AuditNote = "The audit trail has no line of this request."
	if found.IsAudited || !a.trail.IsOn() {
		out.AuditLines, out.AuditNote = a.trail.Lines(found.Audit)
	}
	began := call.GetBegan().AsTime()
	out.Record, out.RecordNote = a.record.Line(trail.Wanted{
		RequestID: call.GetRequestId(), TraceID: call.GetTraceId(), Tool: call.GetTool(), Caller: call.GetCaller(), Began: began,
	})
	asked := telemetry.LogQuery{
		TraceID: call.GetTraceId(), SpanID: call.GetSpanId(), RequestID: call.GetRequestId(), Caller: call.GetCaller(), Tool: call.GetTool(), From: began,
	}
	if call.GetCode() != "" {
		asked.Until = began.Add(call.GetTook().AsDuration() + isNear)
	}
	out.LogLines = a.kept.About(asked)
	if row, err := errmap.Lookup(errmap.Code(call.GetCode())); err == nil {
		out.Advice = row.ForOperators()
	}
	return out
}

// isNear is how long after the end of a call a line of the log may still be about it.
const isNear = 250 * time.Millisecond
