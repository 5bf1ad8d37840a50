// SPDX-License-Identifier: Apache-2.0

package longrunning

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fieldTimeout is the number of WaitOperationRequest.timeout. The name is the first field of
// every request.
const fieldTimeout = 2

// NameRequest returns the wire bytes of a GetOperationRequest, a CancelOperationRequest or a
// DeleteOperationRequest: they have the same form.
func NameRequest(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldName, protowire.BytesType), name)
}

// WaitRequest returns the wire bytes of a WaitOperationRequest: the server is to answer when
// the operation is done, and at the latest after timeout.
func WaitRequest(name string, timeout time.Duration) []byte {
	span, err := proto.Marshal(durationpb.New(timeout))
	if err != nil {
		return NameRequest(name) // a duration has no text that could be invalid
	}
	return protowire.AppendBytes(protowire.AppendTag(NameRequest(name), fieldTimeout, protowire.BytesType), span)
}
