// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// conversation is one Exchange stream in a test's own hands.
type conversation struct {
	t      *testing.T
	stream *connect.BidiStreamForClient[outriggerv1.Envelope, outriggerv1.Envelope]
}

func (c *conversation) send(e *outriggerv1.Envelope) {
	c.t.Helper()
	if err := c.stream.Send(e); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a tools/call of lab.sleep.
func (c *conversation) call(id *outriggerv1.Id, d time.Duration) {
	c.t.Helper()
	params := fmt.Sprintf(`{"name":%q,"arguments":{"duration":"%.3fs"}}`, toolSleep, d.Seconds())
	c.send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: id, Method: "tools/call", ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)},
	}}})
}

// next returns the canonical code of the next reply, "" for success, and its id.
func (c *conversation) next() (string, *outriggerv1.Id) {
	c.t.Helper()
	e, err := c.stream.Receive()
	if err != nil {
		c.t.Fatal(err)
	}
	if ok := e.GetSuccessResponse(); ok != nil {
		return "", ok.GetId()
	}
	return caller.CodeOf(e.GetErrorResponse().GetError().GetDataJson()), e.GetErrorResponse().GetId()
}

// TestExchangeStream uses an id twice, cancels a call, sends what is no message,
// and half-closes while a call is in flight. The stream survives all of it.
func TestExchangeStream(t *testing.T) {
	t.Parallel()
	lab := peer.GRPC(t)
	server := serve(t, "--backend", lab.URL)
	client := caller.Client(true)
	defer client.CloseIdleConnections()
	c := &conversation{t: t, stream: outriggerv1connect.NewToolServiceClient(client, server.URL(""), connect.WithGRPC()).Exchange(t.Context())}
	number := func(n int64) *outriggerv1.Id { return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: n}} }
	text := &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "7"}}

	c.call(number(7), time.Minute)
	testkit.Until(t, "the call reaches the backend", func() bool { return lab.Calls() == 1 })
	c.call(number(7), time.Millisecond)
	if code, id := c.next(); code != "DUPLICATE_REQUEST_ID" || id.GetInteger() != 7 {
		t.Errorf("the second 7: %q for %v", code, id)
	}
	c.call(text, time.Millisecond)
	if code, id := c.next(); code != "" || id.GetText() != "7" {
		t.Errorf(`"7" beside 7: %q for %v`, code, id)
	}
	for _, bad := range []*outriggerv1.Envelope{
		{},
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Method: "ping"}}},
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Id: text}}},
		{Message: &outriggerv1.Envelope_SuccessResponse{SuccessResponse: &outriggerv1.SuccessResponse{Id: text}}},
	} {
		c.send(bad)
		if code, _ := c.next(); code != badShape {
			t.Errorf("%v gets %q", bad, code)
		}
	}
	c.send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: &outriggerv1.Notification{
		Method: "notifications/cancelled", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"requestId":7}`)},
	}}})
	testkit.Until(t, "the backend's call is cancelled", func() bool { return lab.Cancelled() == 1 })

	c.call(number(8), 500*time.Millisecond)
	if err := c.stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if code, id := c.next(); code != "" || id.GetInteger() != 8 {
		t.Errorf("the call in flight at the end: %q for %v", code, id)
	}
	if e, err := c.stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %v %v", e, err)
	}
	_ = c.stream.CloseResponse()
}
