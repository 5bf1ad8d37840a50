// SPDX-License-Identifier: Apache-2.0

package httpbody

import (
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// WriteBatch runs what [bridge.Bridge.BeginMessage] began, concurrently, and
// writes the replies in order: 200 with an array of the existing replies, or 202
// if there are none.
func WriteBatch(w http.ResponseWriter, runs []func() *dialect.Reply) {
	replies := make([]*dialect.Reply, len(runs))
	var running sync.WaitGroup
	for i, run := range runs {
		running.Go(func() { replies[i] = run() })
	}
	running.Wait()
	out := []byte{'['}
	for _, reply := range replies {
		if reply.IsEmpty() || reply.IsUnasked {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = reply.AppendTo(out)
	}
	if len(out) == 1 {
		Write(w, dialect.Reply{Status: http.StatusAccepted})
		return
	}
	Write(w, dialect.NewReply(append(out, ']')))
}

// BatchError converts an error of a whole batch into its canonical form.
func BatchError(err error, most int) *errmap.Error {
	var fault *jsonrpc.Fault
	switch {
	case errors.As(err, &fault):
		return dialect.FaultError(fault)
	case errors.Is(err, jsonrpc.ErrBatchTooLarge):
		return errmap.New(errmap.PayloadTooLarge, errmap.Over(errmap.LimitBatchEntries), errmap.WithViolations(errmap.Violation{
			Keyword: "maxItems", Message: "the batch has more than " + strconv.Itoa(most) + " entries; send it in parts",
		}))
	}
	return errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
		Keyword: "minItems", Message: "the batch is empty; an array must contain at least one message",
	}))
}
