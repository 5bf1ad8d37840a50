// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/schema"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
)

// declaredInput asks a tool's declared input schema about JSON arguments,
// before the transcoder sees them.
func declaredInput(t *catalog.Tool, arguments []byte) *errmap.Error {
	return refusedInput(t)(t.CheckArguments(arguments))
}

// declaredMessage asks it about the request of a typed caller.
func declaredMessage(t *catalog.Tool, wire []byte) *errmap.Error {
	return refusedInput(t)(t.CheckRequest(wire))
}

// refusedInput turns what a check found into what the caller is told.
func refusedInput(t *catalog.Tool) func([]schema.Violation, error) *errmap.Error {
	return func(found []schema.Violation, err error) *errmap.Error {
		switch {
		case err != nil:
			return errmap.Wrap(errmap.InternalError, err)
		case len(found) > 0:
			return errmap.InvalidInput(t.Name, slices.ContainsFunc(found, isStructural), violations(found)...)
		}
		return nil
	}
}

// declaredOutput asks a tool's declared output schema about the result, in the
// form in which callers of the tool get it. The backend has answered by then,
// so no error of its own is hidden.
func declaredOutput(c *toolCall) *errmap.Error {
	if c.tool.Declared == nil || c.tool.Declared.Output == nil {
		return nil
	}
	result, isBare := c.resp.Result.Bytes, c.req.Procedure != ""
	if c.resp.Result.Encoding == EncodingProtobuf {
		var err error
		if result, err = c.tool.Out.ToJSON(nil, result); err != nil {
			return outputError(err)
		}
	}
	found, err := c.tool.CheckResult(result, isBare)
	switch {
	case err != nil:
		return errmap.Wrap(errmap.InternalError, err)
	case len(found) > 0:
		return errmap.New(errmap.InvalidToolOutput, errmap.WithViolations(violations(found)...))
	}
	return nil
}

// declaredData asks a native tool's output schema about its result. A tool that
// promises data has to bring it, unless it failed, which nothing hides.
func declaredData(t *catalog.Tool, result *outriggerv1.ToolResult) *errmap.Error {
	if !t.HasOutput() || result.GetStatus() == StatusFailure {
		return nil
	}
	data, err := mcpjson.FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return errmap.Unwritable(err)
	}
	if len(data) == 0 || string(data) == "null" {
		return errmap.New(errmap.InvalidToolOutput, errmap.Tool(t.Name), errmap.WithViolations(errmap.Violation{
			Keyword: "required", Message: "the tool declares an output schema, and answered without data",
		}))
	}
	found, err := t.CheckResult(data, true)
	switch {
	case err != nil:
		return errmap.Wrap(errmap.InternalError, err)
	case len(found) > 0:
		return errmap.New(errmap.InvalidToolOutput, errmap.WithViolations(violations(found)...))
	}
	return nil
}

// StatusFailure is the status of a tool that failed.
const StatusFailure = "failure"

// isStructural reports whether a schema was broken in its structure, and not
// only by a value out of its range.
func isStructural(v schema.Violation) bool {
	switch v.Keyword {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"format", "enum", "const", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties":
		return false
	}
	return true
}
