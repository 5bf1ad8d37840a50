// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// A sealed state may be opened by another version: what it does not know is not there.
func TestStatesOfOtherVersionsOpen(t *testing.T) {
	t.Parallel()
	asker := telemetry.ReadContext([]byte("0123456789abcdef01234567\x01"))
	for name, tc := range map[string]struct {
		plain string
		want  state
		ok    bool
	}{
		"nothing":                    {},
		"of the version before":      {"\x02backend", state{confirmed: true, backend: []byte("backend")}, true},
		"asked, before":              {"\x01", state{asked: true, backend: []byte{}}, true},
		"with the asker":             {"\x050123456789abcdef01234567\x01", state{asked: true, backend: []byte{}, asker: asker}, true},
		"with the asker and a state": {"\x040123456789abcdef01234567\x01backend", state{backend: []byte("backend"), asker: asker}, true},
		"with an id":                 {"\x09\x02idbackend", state{asked: true, backend: []byte("backend"), requestID: "id"}, true},
		"with the asker and an id":   {"\x0d0123456789abcdef01234567\x01\x02id", state{asked: true, backend: []byte{}, asker: asker, requestID: "id"}, true},
		"with an id and an approval": {"\x1a\x02id\x03abcbackend", state{confirmed: true, backend: []byte("backend"), requestID: "id", approval: "abc"}, true},
		"an approval that is cut":    {"\x10\x04abc", state{}, false},
		"an id that is cut off":      {"\x09\x03id", state{}, false},
		"no id":                      {"\x09", state{}, false},
		"cut off":                    {"\x040123456789abcdef", state{}, false},
	} {
		got, ok := decodeState([]byte(tc.plain))
		if ok != tc.ok || got.asked != tc.want.asked || got.requestID != tc.want.requestID || got.approval != tc.want.approval || got.confirmed != tc.want.confirmed || !got.asker.Equal(tc.want.asker) || cmp.Diff(tc.want.backend, got.backend) != "" {
			t.Errorf("%s: got %+v %v", name, got, ok)
		}
		if tc.ok && string(got.encode()) != tc.plain {
			t.Errorf("%s: written as %q", name, got.encode())
		}
	}
}

// TestWhatABackendSaysWasSent: an approval is used up unless the call is known not to have reached the backend.
func TestWhatABackendSaysWasSent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  *errmap.Error
		want bool
	}{
		"no error":         {nil, false},
		"another code":     {errmap.New(errmap.Timeout), false},
		"not reached":      {errmap.Wrap(errmap.Unavailable, &backend.Error{Kind: backend.KindUnreachable}), true},
		"no place":         {errmap.New(errmap.Unavailable), true},
		"said by the peer": {errmap.Wrap(errmap.Unavailable, &backend.Error{Kind: backend.KindStatus}), false},
	} {
		if got := wasNotSent(tc.err); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAWaitingCallThatMayNotBeResumed: its approval ends with it.
func TestAWaitingCallThatMayNotBeResumed(t *testing.T) {
	t.Parallel()
	service := approval.New(approval.Options{Store: approval.NewMemory(nil)})
	r, failed := service.Ask(t.Context(), &approval.Call{Tool: "shop.refund", Rule: approval.Rule{Name: "a", Count: 1, Within: time.Hour}}, "")
	if failed != nil {
		t.Fatal(failed)
	}
	a := &approvals{service: service, rulebook: &rulebook{rules: struct{ Rules }{}}, tasks: &tasks{sender: &sender{deadlines: &deadlines{}}}}
	own := &toolCall{tool: &catalog.Tool{Name: "shop.refund"}}
	waits, err := a.resume(own, &statev1.TaskCall{Approval: r.GetId(), Who: &statev1.TaskCaller{Name: "ann", Source: "oauth"}})
	if err != nil {
		t.Fatal(err)
	}
	if failed = own.approved.wait(t.Context(), func(string) {}); failed == nil || failed.Code != errmap.PermissionDenied || !waits() {
		t.Error(failed)
	}
	if r, failed = service.Get(t.Context(), r.GetId()); failed != nil || r.GetState() != approval.Cancelled {
		t.Error(r, failed)
	}
}
