// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"connectrpc.com/connect"
)

// TestAForeignStatusThatWantsCredentials learns it from its message: OpenFGA refuses
// calls without a token with its own numbers.
func TestAForeignStatusThatWantsCredentials(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status  uint32
		message string
		want    Fault
	}{
		{16, "who are you", FaultCredentials},
		{7, "no", FaultForbidden},
		{1010, "missing bearer token", FaultCredentials},
		{1500, "unauthenticated", FaultCredentials},
		{1600, "forbidden", FaultForbidden},
		{2017, "rate limit exceeded", FaultUnknown},
		{3, "unauthenticated", FaultUnknown},
	} {
		p := servePeer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", fmt.Sprint(tt.status))
			w.Header().Set("Grpc-Message", tt.message)
		}), clearProtocols(false, true))
		if err := newClient(t, p.as("grpc"), Options{}).Check(t.Context()); FaultOf(err) != tt.want {
			t.Errorf("%d %s is %q, want %q: %v", tt.status, tt.message, FaultOf(err), tt.want, err)
		}
		// Reflection goes through the RPC library.
		err := fmt.Errorf("list services: %w", connect.NewError(connect.Code(tt.status), errors.New(tt.message)))
		if FaultOf(err) != tt.want {
			t.Errorf("%d %s of the library is %q, want %q", tt.status, tt.message, FaultOf(err), tt.want)
		}
	}
}
