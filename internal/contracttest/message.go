// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"fmt"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// MessageForm holds the compiled schemas of the message form of a tool call.
type MessageForm struct {
	// Call is for the params {"tool_name", "arguments"}.
	Call *schema.Validator
	// Result is for the result {"status", "data", "error", "explanation"}.
	Result *schema.Validator
}

func compileMessageForm() (*MessageForm, error) {
	call, err := compileFile(schemas.ToolCall)
	if err != nil {
		return nil, err
	}
	result, err := compileFile(schemas.ToolResult)
	if err != nil {
		return nil, err
	}
	return &MessageForm{Call: call, Result: result}, nil
}

func compileFile(name string) (*schema.Validator, error) {
	raw, err := schemas.Read(name)
	if err != nil {
		return nil, fmt.Errorf("contracttest: %w", err)
	}
	v, err := schema.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("contracttest: compile %s: %w", name, err)
	}
	return v, nil
}
