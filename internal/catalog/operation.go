// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Operation is what a tool has whose RPC starts a long-running operation (AIP-151). It is immutable.
type Operation struct {
	// Response and Metadata are the messages that the operation ends with and that report its progress. Nil if the method
	// does not declare the type, or if the descriptors lack it: then values are written as an Any, with their type.
	Response, Metadata *OperationValue
	// Get, Wait and Cancel are the RPCs of google.longrunning.Operations by which the operation is followed.
	Get, Wait, Cancel *Method
	// GetTool and CancelTool are the tools by which callers go on with it; nil where there are none.
	GetTool, CancelTool *Tool
}

// OperationValue is a message that an operation has in an Any.
type OperationValue struct {
	Name protoreflect.FullName
	Out  *transcode.Message
}

// OperationProperty is the member of a result that stands for an operation that has not ended. No field has this name in
// JSON, unless somebody chose it.
const OperationProperty = "outrigger_operation"

// Continuation is what a tool of the sidecar's own does with an operation.
type Continuation uint8

const (
	// NoContinuation is that of all other tools.
	NoContinuation Continuation = iota
	// GetOperation waits for an operation, and returns what it ends with.
	GetOperation
	// CancelOperation asks the backend to end an operation.
	CancelOperation
)

// HandleArgument is the one argument of these tools.
const HandleArgument = "handle"
