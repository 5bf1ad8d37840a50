// SPDX-License-Identifier: Apache-2.0

package behalf

import "github.com/outrigger-mcp/outrigger/errmap"

// OnMissing is what happens to the call of a caller in whose name the backend cannot be
// called: without an access token, or without an identity.
type OnMissing uint8

// The ways. Refuse is the zero value.
const (
	// Refuse answers PERMISSION_DENIED.
	Refuse OnMissing = iota
	// SendNone calls the backend without credentials for the caller.
	SendNone
)

// missing is the answer for a caller without what is needed.
func (m OnMissing) missing(refused func(), why string) (string, *errmap.Error) {
	if m == SendNone {
		return "", nil
	}
	refused()
	return "", errmap.New(errmap.PermissionDenied, errmap.Message("Permission denied: "+why))
}
