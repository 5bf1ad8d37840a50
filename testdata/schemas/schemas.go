// SPDX-License-Identifier: Apache-2.0

// Package schemas holds the JSON Schemas of the canonical contract as files, so
// that other systems can use them as they are, and gives their bytes to Go.
//
// envelope/ has one schema (Draft 2020-12) for each type of JSON-RPC message of
// the canonical dialect, message/ the two of the message form of a tool call
// (draft-07), record/ those of the lines of a run record, audit-v1 the one of
// a line of an audit trail. The package neither compiles nor checks anything: internal/contracttest
// does. All functions return copies and are safe for concurrent use.
package schemas

import (
	"embed"
	"fmt"
)

//go:embed envelope/*.schema.json message/*.schema.json record/*.schema.json audit-v1.schema.json
var files embed.FS

// The names that Read takes.
const (
	Request         = "envelope/request"
	Notification    = "envelope/notification"
	SuccessResponse = "envelope/success_response"
	ErrorResponse   = "envelope/error_response"
	ToolCall        = "message/tool_call"
	ToolResult      = "message/tool_result"
	RecordEvent     = "record/event"
	RecordCall      = "record/call"
	Audit           = "audit-v1"
)

// Names returns all names, in the order of the constants.
func Names() []string {
	return []string{Request, Notification, SuccessResponse, ErrorResponse, ToolCall, ToolResult, RecordEvent, RecordCall, Audit}
}

// Read returns the schema of a name. The error, for a name that is none of the
// constants, wraps fs.ErrNotExist.
func Read(name string) ([]byte, error) {
	raw, err := files.ReadFile(name + ".schema.json")
	if err != nil {
		return nil, fmt.Errorf("schemas: read %s: %w", name, err)
	}
	return raw, nil
}
