// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// Dialect is the JSON-RPC dialect of a message.
type Dialect = dialect.Dialect

// The dialects.
const (
	Canonical = dialect.Canonical
	Modern    = dialect.Modern
	Legacy    = dialect.Legacy
)

// Origin is the scope in which the ids of messages are unique.
type Origin = correlate.Origin

// Message is a JSON-RPC message, as an edge passes it on. The zero Origin is that of
// messages without one.
type Message struct {
	Dialect Dialect
	Origin  Origin
	Text    string
	// Header has the HTTP headers; nil where the transport has none.
	Header http.Header
	// Caller is the address of a caller without an identity, Transport and Route are for logs.
	Caller, Transport, Route string
	// Send takes what is sent before the reply; nil where nothing can be.
	Send func(message []byte) error
}

// Reply is the reply to a [Message].
type Reply struct {
	Status int
	Header http.Header
	// Then follows the reply.
	Then []byte
	body []byte
	of   *dialect.Reply
}

// Bytes returns the text of the reply; nil where there is none.
func (r Reply) Bytes() []byte { return r.body }

// Release has the sidecar use the buffer of the reply again.
func (r Reply) Release() { r.of.Release() }

// NewOrigin returns an origin that no message has yet.
func (r *Rig) NewOrigin() Origin { return r.app.Bridge().Flights().NewOrigin() }

// InFlight counts the requests in flight.
func (r *Rig) InFlight() int { return r.app.Bridge().Flights().InFlight() }

// Drain refuses new requests and waits for those in flight. It returns how many it cut when ctx ended.
func (r *Rig) Drain(ctx context.Context) (cut int) {
	if err, ok := r.app.Bridge().Flights().Drain(ctx).(*correlate.DrainError); ok { //nolint:errorlint // as it is returned
		return err.Cut
	}
	return 0
}

// EndStreams ends the subscriptions of all callers.
func (r *Rig) EndStreams() { r.Bridge.Offers().Feed().Close() }

// ToolsChanged tells subscribers that the list of tools has changed, ResourceUpdated that a resource has.
func (r *Rig) ToolsChanged() error {
	return r.Bridge.Offers().Feed().Publish(notify.Change{Kind: notify.ToolsListChanged})
}

// ResourceUpdated tells subscribers that a resource has changed.
func (r *Rig) ResourceUpdated(uri string) error {
	return r.Bridge.Offers().Feed().Publish(notify.Change{Kind: notify.ResourceUpdated, URI: uri})
}

// Send handles a message and returns the reply.
func (r *Rig) Send(ctx context.Context, m *Message) Reply { return r.Begin(ctx, m)() }

// Begin takes a message, and returns what handles it.
func (r *Rig) Begin(ctx context.Context, m *Message) func() Reply {
	run := r.Bridge.BeginMessage(ctx, m.inbound(ctx))
	return func() Reply { return replyOf(run()) }
}

// Refuse returns the reply to a message that an edge does not take.
func (r *Rig) Refuse(m *Message, err *errmap.Error) Reply {
	reply := r.Bridge.Refuse(m.inbound(context.Background()), err)
	return replyOf(&reply)
}

func (m *Message) inbound(ctx context.Context) *dialect.Inbound {
	msg := parse(m.Dialect, []byte(m.Text))
	return &dialect.Inbound{
		Dialect: m.Dialect, Origin: m.Origin, Message: &msg, Header: m.Header, Caller: bridge.CallerOf(ctx, m.Caller), Transport: m.Transport, Route: m.Route, Send: m.Send,
	}
}

func replyOf(r *dialect.Reply) Reply {
	return Reply{Status: r.Status, Header: r.Header, Then: r.Then, body: r.Bytes(), of: r}
}

// Stdio serves a conversation over standard input and output until in ends.
func (r *Rig) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return r.app.Stdio(ctx, stdio.ModeAuto, in, out)
}

// Trust is what is said of the trust in one caller.
type Trust = identity.Trust

// The trust in a caller; Unsaid is what holds for all.
const (
	Unsaid    = identity.Unsaid
	Trusted   = identity.Trusted
	Untrusted = identity.Untrusted
)

// Entered returns the context of a caller with an entry in a callers file, and what removes the entry.
func Entered(t testing.TB, g identity.Grant) (ctx context.Context, remove func()) {
	t.Helper()
	const uri = "spiffe://a/b"
	book := identity.NewBook([]identity.Entry{{Grant: g, URIs: []string{uri}}})
	who, err := book.Authenticate(t.Context(), identity.Credentials{URIs: []string{uri}})
	if err != nil {
		t.Fatal(err)
	}
	return identity.NewContext(t.Context(), who), func() { book.Replace(nil) }
}

// Of returns the context of a caller in groups.
func Of(t testing.TB, g identity.Grant, groups ...string) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.NewIdentityOf(g, identity.Facts{Groups: groups}))
}

// As returns a context of a caller with these permissions.
func As(t testing.TB, g identity.Grant) context.Context {
	t.Helper()
	return identity.NewContext(t.Context(), identity.NewIdentity(g))
}

// Repaired counts the calls whose arguments were repaired.
func (r *Rig) Repaired() uint64 { return r.app.Bridge().Repaired() }

// Reduced counts the results that were cut.
func (r *Rig) Reduced() uint64 { return r.app.Bridge().Reduced() }

// ToolsFor returns the names of the tools that the caller of ctx may see.
func (r *Rig) ToolsFor(ctx context.Context) (names []string) {
	for _, tool := range r.app.Bridge().CatalogFor(ctx).Tools() {
		names = append(names, tool.Name)
	}
	return names
}

// Notified is a [Pipe] whose notifications go to a function, and nowhere else; nil drops them.
func Notified(t testing.TB, to func(method string, params []byte, origin Origin)) *Rig {
	t.Helper()
	rig := Pipe(t, Parts{})
	var o dialect.Options
	if to != nil {
		o.Notify = func(_ context.Context, method string, params []byte, origin Origin) { to(method, params, origin) }
	}
	rig.Bridge = dialect.New(rig.app.Bridge(), o)
	return rig
}

// Envelope is what a text is as a JSON-RPC message.
type Envelope struct {
	Method                    string
	Params, Result            []byte
	IsRequest, IsNotification bool
	// Fault is why it is no message; nil if it is one.
	Fault error
}

// Read reads a text as a message of a dialect.
func Read(d Dialect, text []byte) Envelope {
	msg := parse(d, text)
	out := Envelope{
		Method: msg.Method, Params: msg.Params, Result: msg.Result,
		IsRequest: msg.Kind == jsonrpc.KindRequest, IsNotification: msg.Kind == jsonrpc.KindNotification,
	}
	if msg.Fault != nil {
		out.Fault = errors.New(msg.Fault.Reason)
	}
	return out
}

func parse(d Dialect, text []byte) jsonrpc.Message {
	profile := jsonrpc.ProfileMCP
	if d == Canonical {
		profile = jsonrpc.ProfileCanonical
	}
	return jsonrpc.Parse(text, profile, jsonrpc.Limits{})
}

// ExceedsBounds reports whether a document has more than what checks JSON Schemas looks at.
func ExceedsBounds(document []byte) bool { return len(schema.Inspect(document, schema.Bounds{})) > 0 }

// Schema compiles a JSON Schema, and returns what checks documents.
func Schema(t testing.TB, raw []byte) func(document []byte) error {
	t.Helper()
	compiled, err := schema.Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return func(document []byte) error {
		found, err := compiled.Validate(document)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%v", found)
		}
		return err
	}
}

// Waiting returns the ids of the calls that wait for approval, the oldest first.
func (r *Rig) Waiting(t testing.TB) (ids []string) {
	t.Helper()
	for _, one := range r.Approvals(t) {
		ids = append(ids, one.GetId())
	}
	return ids
}

// Approvals returns the calls that wait for approval, the oldest first.
func (r *Rig) Approvals(t testing.TB) []*statev1.ApprovalRecord {
	t.Helper()
	all, err := r.app.Approvals().List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Decide decides about a call that waits, as the local operator.
func (r *Rig) Decide(t testing.TB, id string, approve bool, reason string) {
	t.Helper()
	if _, err := r.app.Approvals().Decide(t.Context(), id, approval.Approver{Name: "local"}, approve, reason); err != nil {
		t.Fatal(err)
	}
}
