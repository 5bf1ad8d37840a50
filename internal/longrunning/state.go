// SPDX-License-Identifier: Apache-2.0

package longrunning

import (
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// AppendPending appends the JSON of an operation that is still running: done, handle (if
// there is one), and what is known of its progress. metadata is JSON; nil is left out.
func AppendPending(dst []byte, handle string, r Report, metadata []byte) []byte {
	dst = append(dst, `{"done":false`...)
	if handle != "" {
		dst = jsontext.AppendString(append(dst, `,"handle":`...), handle)
	}
	if r.Text != "" {
		dst = jsontext.AppendString(append(dst, `,"status_message":`...), r.Text)
	}
	if r.HasPercent {
		dst = strconv.AppendFloat(append(dst, `,"progress_percent":`...), r.Percent, 'f', -1, 64)
	}
	if metadata != nil {
		dst = append(append(dst, `,"metadata":`...), metadata...)
	}
	return append(dst, '}')
}

// ResponseMember is the member of what AppendDone writes that has the response.
const ResponseMember = "response"

// AppendDone appends the JSON of an operation that has ended with a response, which is JSON.
func AppendDone(dst, response []byte) []byte {
	return append(append(append(dst, `{"done":true,"response":`...), response...), '}')
}

// AppendCancelRequested appends the JSON of what a request to cancel is answered with.
func AppendCancelRequested(dst []byte, handle string) []byte {
	return append(jsontext.AppendString(append(dst, `{"cancel_requested":true,"handle":`...), handle), '}')
}

// AppendMember appends an object with one member, whose value is JSON.
func AppendMember(dst []byte, name string, value []byte) []byte {
	dst = append(jsontext.AppendString(append(dst, '{'), name), ':')
	return append(append(dst, value...), '}')
}
