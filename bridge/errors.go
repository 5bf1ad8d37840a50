// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"

	"github.com/outrigger-mcp/outrigger/bridge/transcode"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	return errmap.Because(errmap.Unavailable, reason, errmap.RetryAfter(retryAfter))
}

// internalError is INTERNAL_ERROR for what the transcoder could not do. Where
// its checks disagree (--validate full), it says so: the caller is somebody who
// wants to know, and none of the answers may be taken for the right one.
func internalError(err error) *errmap.Error {
	var found *transcode.DisagreementError
	if errors.As(err, &found) {
		return errmap.Wrap(errmap.InternalError, err, errmap.Message("Internal error: the checks of "+found.Message+" disagree: "+found.What))
	}
	return errmap.Wrap(errmap.InternalError, err)
}
