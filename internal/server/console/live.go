// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

const (
	// usualInterval, minInterval and maxInterval bound the time between two messages of Watch.
	usualInterval, minInterval, maxInterval = time.Second, 250 * time.Millisecond, time.Minute
	// maxWatchers bounds the clients that watch at a time: each costs a message of up to some 100 KB at its interval.
	maxWatchers = 32
	// perMessage is the time between two messages to any of these clients: each costs a millisecond of CPU, or several where
	// many calls end. Where many watch, their intervals grow: at 32 clients to a second.
	perMessage = time.Second / 32
	// maxCalls is the maximum number of calls of each kind in one message, maxCounts that of tools.
	maxCalls, maxCounts = 200, 256
)

// Watch implements AdminService. While a client watches, calls are kept with their steps.
func (s *Service) Watch(ctx context.Context, req *connect.Request[adminv1.WatchRequest], out *connect.ServerStream[adminv1.WatchResponse]) error {
	if s.watchers.Add(1) > maxWatchers {
		s.watchers.Add(-1)
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%d clients watch already; close a console", maxWatchers)) //nolint:err113 // for people
	}
	defer s.watchers.Add(-1)
	defer s.opts.Bridge.Watch()()
	defer s.opts.WatchLog()()
	interval := usualInterval
	if req.Msg.GetInterval() != nil {
		interval = min(max(req.Msg.GetInterval().AsDuration(), minInterval), maxInterval)
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	last := uint64(0)
	for isFirst := true; ; isFirst = false {
		now := s.snapshot(isFirst)
		now.Ended, last, now.EndedOmitted = s.opts.Bridge.EndedSince(last, maxCalls)
		if err := out.Send(now); err != nil {
			return err
		}
		timer.Reset(max(interval, time.Duration(s.watchers.Load())*perMessage))
		select {
		case <-timer.C:
		case <-s.opts.Ending:
			return refused(errmap.Unavailable, "Unavailable: the sidecar is shutting down")
		case <-ctx.Done():
			return nil
		}
	}
}

// snapshotFor is how long clients that watch share what was found out for one of them: eight times a second at most, however many
// watch. It is shorter than any of their intervals.
const snapshotFor = minInterval / 2

// shared is the last state of the sidecar that was sent.
type shared struct {
	mu    sync.Mutex
	at    time.Time
	state *adminv1.WatchResponse
}

// snapshot is the state of the sidecar, without the calls that have ended. Its parts are shared, and must not be changed. A
// fresh one is of now.
func (s *Service) snapshot(isFresh bool) *adminv1.WatchResponse {
	s.shared.mu.Lock()
	if now := time.Now(); isFresh || s.shared.state == nil || now.Sub(s.shared.at) >= snapshotFor {
		s.shared.state, s.shared.at = s.state(now), now
	}
	state := s.shared.state
	s.shared.mu.Unlock()
	out := &adminv1.WatchResponse{}
	to := out.ProtoReflect()
	state.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	return out
}

// state is the state of the sidecar now, without the calls that have ended.
func (s *Service) state(at time.Time) *adminv1.WatchResponse {
	ready, checks := s.opts.Ready()
	now := &adminv1.WatchResponse{
		Time: timestamppb.New(at), Started: timestamppb.New(s.started), Ready: ready, State: s.opts.State(), Watchers: s.watchers.Load(),
		Certificates: s.opts.Certificates(), Trust: s.trust(), Approvals: int32(min(s.opts.Approvals.Waiting(), 1<<30)),
	}
	for _, c := range s.opts.Stats.Counts(maxCounts) {
		now.Tools = append(now.Tools, counts(c))
	}
	calls, total := s.opts.Bridge.InFlight(maxCalls)
	now.InFlight, now.InFlightTotal = calls, int32(min(total, 1<<30))
	for _, c := range checks {
		now.Checks = append(now.Checks, &adminv1.Check{Name: clip(c.Name, maxSummary), Ok: c.OK, Detail: clip(c.Detail, maxDetail), IsInfo: c.Info})
	}
	for _, l := range s.opts.Limits {
		one := &adminv1.Limit{Name: l.Name, Most: l.Most()}
		if l.Used != nil {
			used := l.Used()
			one.Used = &used
		}
		if l.Refused != nil {
			one.Refused = l.Refused()
		}
		now.Limits = append(now.Limits, one)
		switch amount := int32(min(one.GetUsed(), 1<<30)); l.Name {
		case "max_sessions":
			now.Sessions = amount
		case "max_tasks":
			now.Tasks = amount
		case "max_streams":
			now.Streams = amount
		case "max_tools":
			now.CatalogTools = amount
		}
	}
	if fingerprint := s.opts.Fingerprint(); fingerprint != "" {
		now.CatalogFingerprint = fingerprint
	}
	return now
}

// counts are the counts of a tool.
func counts(c telemetry.ToolCounts) *adminv1.ToolCounts {
	out := &adminv1.ToolCounts{
		Name: c.Tool, Calls: c.Calls, Failed: c.Failed, InFlight: c.InFlight, Total: durationpb.New(c.Total), Buckets: c.Buckets,
	}
	for _, bound := range c.Bounds {
		out.Bounds = append(out.Bounds, bound.Seconds())
	}
	return out
}

// maxDetail bounds the text of a check, which may hold an error that a backend sent.
const maxDetail = 1024

// GetCall implements AdminService.
func (s *Service) GetCall(ctx context.Context, req *connect.Request[adminv1.GetCallRequest]) (*connect.Response[adminv1.GetCallResponse], error) {
	if found := s.opts.Find(ctx, req.Msg.GetId()); found != nil {
		return connect.NewResponse(found), nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errGone)
}

// ListStreamItems implements AdminService.
func (s *Service) ListStreamItems(ctx context.Context, req *connect.Request[adminv1.ListStreamItemsRequest]) (*connect.Response[adminv1.ListStreamItemsResponse], error) {
	items, omitted, operator := s.opts.Bridge.StreamItems(req.Msg.GetCallId(), req.Msg.GetAfter())
	// Who made the call gets its result. Where operators do not authenticate, all are one.
	if operator == "" || s.opts.Operators.HasOperators() && s.opts.Operators.Operator(ctx, req.Peer().Addr) != operator {
		return connect.NewResponse(&adminv1.ListStreamItemsResponse{Ended: true}), nil
	}
	return connect.NewResponse(&adminv1.ListStreamItemsResponse{Items: items, Omitted: omitted}), nil
}

// errGone is for a call that is not kept.
var errGone = errors.New("the call is not in flight and no longer kept: the sidecar keeps the newest calls, and all of them only while a console is open; " +
	"the audit trail and the log may have it")

// GetServer implements AdminService.
func (s *Service) GetServer(ctx context.Context, req *connect.Request[adminv1.GetServerRequest]) (*connect.Response[adminv1.GetServerResponse], error) {
	about := s.opts.Bridge.Server()
	out := &adminv1.GetServerResponse{
		Name: about.Name, Title: cmp.Or(about.Title, about.Name), Version: s.opts.Bridge.Version(),
		CanOperate: s.opts.Operators.May(ctx, admin.RoleOperate), CanSignOut: s.opts.Operators.IsSignedIn(ctx),
		Revisions: slices.Clone(dialect.Versions()), Trust: s.trust(), Url: s.opts.URL(), HasCallers: s.opts.HasCallers,
	}
	if s.opts.Operators.HasOperators() {
		out.Operator = s.opts.Operators.Operator(ctx, req.Peer().Addr)
	}
	out.Callers, out.CallRefusal = s.opts.Callers(ctx)
	return connect.NewResponse(out), nil
}

// trust says whether callers may run destructive tools.
func (s *Service) trust() string {
	if s.opts.Trust == nil {
		return ""
	}
	state, _ := s.opts.Trust.Trust()
	if s.opts.Confirms && state == untrusted {
		return "confirm"
	}
	return state
}

// untrusted is the state in which destructive tools are held back.
const untrusted = "untrusted"

// Refresh implements AdminService.
func (s *Service) Refresh(ctx context.Context, req *connect.Request[adminv1.RefreshRequest]) (*connect.Response[adminv1.RefreshResponse], error) {
	if err := s.mayOperate(ctx); err != nil {
		return nil, err
	}
	done := s.opts.Refresh(ctx, s.opts.Operators.Operator(ctx, req.Peer().Addr))
	if !done.OK {
		text := "Unavailable: the catalog was not loaded, and the previous one stays in use: " + done.Error
		if done.Fix != "" {
			text += ". " + done.Fix
		}
		return nil, refused(errmap.Unavailable, text)
	}
	return connect.NewResponse(&adminv1.RefreshResponse{
		Changed: done.Changed, Tools: int32(min(done.Tools, 1<<30)), Fingerprint: done.Fingerprint,
		Took: durationpb.New(time.Duration(done.TookMS * float64(time.Millisecond))),
	}), nil
}

// SetTrust implements AdminService.
func (s *Service) SetTrust(ctx context.Context, req *connect.Request[adminv1.SetTrustRequest]) (*connect.Response[adminv1.SetTrustResponse], error) {
	if err := s.mayOperate(ctx); err != nil {
		return nil, err
	}
	if s.opts.Trust == nil {
		return nil, refused(errmap.MethodNotFound, "Method not found: this sidecar has no trust to change")
	}
	before, err := s.opts.Trust.SetTrust(s.opts.Operators.Operator(ctx, req.Peer().Addr), req.Msg.GetTrust())
	switch {
	case errors.Is(err, admin.ErrUnavailable):
		return nil, refused(errmap.Unavailable, "Unavailable: "+err.Error())
	case err != nil:
		return nil, refused(errmap.InvalidParams, "Invalid parameters: "+err.Error())
	}
	now, _ := s.opts.Trust.Trust()
	return connect.NewResponse(&adminv1.SetTrustResponse{Trust: now, Before: before}), nil
}

// Drain implements AdminService.
func (s *Service) Drain(ctx context.Context, req *connect.Request[adminv1.DrainRequest]) (*connect.Response[adminv1.DrainResponse], error) {
	if err := s.mayOperate(ctx); err != nil {
		return nil, err
	}
	if s.opts.Drain == nil {
		return nil, refused(errmap.MethodNotFound, "Method not found: this sidecar is part of another program, which ends it")
	}
	s.opts.Drain.Drain(s.opts.Operators.Operator(ctx, req.Peer().Addr))
	return connect.NewResponse(&adminv1.DrainResponse{InFlight: int32(min(s.opts.Drain.InFlight(), 1<<30))}), nil
}
