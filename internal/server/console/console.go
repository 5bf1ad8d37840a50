// SPDX-License-Identifier: Apache-2.0

// Package console is the console: two pages for operators on the admin listener, and their API, outrigger.admin.v1.
//
// The pages are built from the folder page into the folder built, which is embedded. [Service] answers them: what tools there
// are, whether arguments are right, what the sidecar is doing. It authenticates no one: the admin listener does.
package console

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1/adminv1connect"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// Options are the parts of a sidecar that its console shows. Trust, Drain and Refresh may be nil; everything else is required.
type Options struct {
	// Bridge runs calls, and knows those in flight.
	Bridge *bridge.Bridge
	// Stats has the counts of each tool.
	Stats *telemetry.Stats
	// Lists has the cost of the list of tools.
	Lists *listcost.Meter
	// JSON bounds the arguments that are checked.
	JSON jsonrpc.Limits
	// RunsOn is the time after which a call runs on as a task, if its tool does not say; zero is never.
	RunsOn time.Duration
	// Limits are those of the configuration.
	Limits []export.Limit
	// Ready is what /readyz says, State the state of the process.
	Ready func() (bool, []admin.Check)
	State func() string
	// Certificates are those in use.
	Certificates func() []*adminv1.Certificate
	// URL is the address of the listener for callers, empty without one.
	URL func() string
	// IsGated reports whether the gate holds a tool back from callers that are not trusted.
	IsGated func(*catalog.Tool) bool
	// Callers are those that the operator of a request may call tools as; where there are none, refusal says why. An empty name
	// is the anonymous local caller.
	Callers func(ctx context.Context) (names []string, refusal string)
	// Operators are the clients of the admin listener.
	Operators Operators
	// Trust, Drain and Refresh are those of the admin listener.
	Trust   admin.Trust
	Drain   admin.Drainer
	Refresh func(ctx context.Context, who string) admin.Refreshed
	// HasCallers is set if the main listener asks callers for credentials, Confirms if users are asked before destructive calls.
	HasCallers, Confirms bool
	// Find returns what is known of a call: in flight, or among those that are kept; nil for another.
	Find func(ctx context.Context, id uint64) *adminv1.GetCallResponse
	// WatchLog has all lines of the log kept until stop is called.
	WatchLog func() (stop func())
	// LongLived are the sessions, tasks or streams of the process, in no order; nil for another kind. They are not changed.
	LongLived func(kind adminv1.LongLivedKind) []*adminv1.LongLived
	// Fingerprint is that of the catalog, empty before the first.
	Fingerprint func() string
	// Approvals are the calls that wait for approval, Approver is the operator of a request as an approver. Shown returns what an
	// operator with classes of fields may see of the arguments, and of the preview.
	Approvals Approvals
	Approver  func(ctx context.Context) approval.Approver
	Shown     func(ctx context.Context, r *statev1.ApprovalRecord, classes []string) (arguments, preview string)
	// Ending is closed when the sidecar has answered its last call: those who watch are to go.
	Ending <-chan struct{}
}

// Operators know who operates.
type Operators interface {
	// May reports whether the operator of a request has a role.
	May(ctx context.Context, role admin.Role) bool
	// Operator returns the name of the operator of a request, else the address of its peer.
	Operator(ctx context.Context, peer string) string
	// IsSignedIn reports whether the operator of a request signed in with a cookie.
	IsSignedIn(ctx context.Context) bool
	// HasOperators reports whether operators authenticate.
	HasOperators() bool
}

// Service implements outrigger.admin.v1.AdminService. Make one with [New]. It is safe for concurrent use.
type Service struct {
	adminv1connect.UnimplementedAdminServiceHandler

	opts     Options
	started  time.Time
	index    compact.Newest
	changed  changes
	watchers atomic.Int32
	shared   shared
}

// New returns a Service, which hears of new catalogs from live.
func New(live *catalog.Live, o Options) *Service {
	s := &Service{opts: o, started: time.Now()}
	live.OnChange(s.changed.note)
	return s
}

// Handler returns the path prefix and the handler of the API.
//
// Few requests but those of Watch are answered at a time, because the arguments of each may be as large as a message of a caller; the
// others wait.
func (s *Service) Handler() (string, http.Handler) {
	path, handler := s.handler()
	places := make(chan struct{}, maxAnswering)
	return path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != adminv1connect.AdminServiceWatchProcedure {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-r.Context().Done():
				return // no one waits for an answer
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// maxAnswering is how many requests are answered at a time.
const maxAnswering = 4

func (s *Service) handler() (string, http.Handler) {
	return adminv1connect.NewAdminServiceHandler(s, connect.WithReadMaxBytes(s.opts.JSON.MaxBytes),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, p any) error {
			return errmap.ToConnect(s.opts.Bridge.Panicked(p), errmap.About{})
		}))
}

// mayOperate returns PERMISSION_DENIED for an operator that may only read.
func (s *Service) mayOperate(ctx context.Context) error {
	if s.opts.Operators.May(ctx, admin.RoleOperate) {
		return nil
	}
	return refused(errmap.PermissionDenied, "Permission denied: "+needsOperate)
}

// needsOperate says what an operator lacks.
const needsOperate = "this needs the role operate; it is set in the operators file (--admin-tokens)"

// refused is a canonical error with a message, as Connect shows it.
func refused(code errmap.Code, message string) error {
	return errmap.ToConnect(errmap.New(code, errmap.Message(message)), errmap.About{})
}
