// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Native is a backend that speaks the tool API itself, and so can offer more
// than RPCs. Errors are canonical, as with [Upstream]; methods are safe for
// concurrent use.
type Native interface {
	// CallTool runs a tool. Where events is not nil it takes what happens
	// meanwhile, in order, before CallTool returns.
	CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error)
	// Ask makes the unary RPC of the tool API that belongs to the type of in: a
	// ReadResourceRequest is answered by a ResourceOutcome, and so on. The
	// answer's Body is empty.
	Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error)
}
