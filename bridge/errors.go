// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	return errmap.Because(errmap.Unavailable, reason, errmap.RetryAfter(retryAfter))
}

// inputError tells arguments that break the schema or its rules from bytes that
// are no message at all, which only a typed pass-through can send, and both from
// a fault of ours.
func inputError(tool *catalog.Tool, err error) *errmap.Error {
	var input *transcode.InputError
	if errors.As(err, &input) {
		failed := errmap.InvalidInput(tool.Name, input.Structural, violations(input.Violations)...)
		failed.Broken = input.Broken
		if slices.ContainsFunc(input.Violations, func(v schema.Violation) bool { return v.Keyword == "maxDepth" }) {
			failed.Limit = errmap.LimitJSONDepth
		}
		return failed
	}
	var unreadable *transcode.OutputError
	if errors.As(err, &unreadable) {
		return errmap.InvalidInput(tool.Name, true, errmap.Violation{
			Keyword: "encoding", Message: "the bytes are not an encoding of " + string(tool.Method.Descriptor.Input().FullName()),
		})
	}
	return checkError(err)
}

// outputError tells what is no message at all from a message that breaks its
// own schema; what is neither is a fault of ours.
func outputError(err error) *errmap.Error {
	var broken *transcode.InputError
	if errors.As(err, &broken) {
		failed := errmap.Wrap(errmap.InvalidToolOutput, err, errmap.WithViolations(violations(broken.Violations)...))
		failed.Broken = broken.Broken
		return failed
	}
	var unreadable *transcode.OutputError
	if errors.As(err, &unreadable) {
		return errmap.Wrap(errmap.SerializationError, err)
	}
	return checkError(err)
}

// checkError is a check that failed: it ended with its context, or it is a fault of ours.
func checkError(err error) *errmap.Error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case errors.Is(err, context.Canceled):
		return errmap.Wrap(errmap.Cancelled, err)
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// violations carries a schema's findings over into the canonical vocabulary.
func violations(found []schema.Violation) []errmap.Violation {
	if len(found) == 0 {
		return nil
	}
	out := make([]errmap.Violation, len(found))
	for i, v := range found {
		out[i] = errmap.Violation(v)
	}
	return out
}

// checkSize returns RESOURCE_EXHAUSTED for a result of more bytes than one may have, else nil.
func (k *keeper) checkSize(size int) *errmap.Error {
	if k.maxResult > 0 && size > k.maxResult {
		return k.tooLargeResult(size)
	}
	return nil
}

// tooLargeResult is RESOURCE_EXHAUSTED for a result that no caller should have
// to take.
func (k *keeper) tooLargeResult(size int) *errmap.Error {
	k.stats.Over(errmap.LimitResultBytes)
	return errmap.Because(errmap.ResourceExhausted, fmt.Sprintf("the result has %d bytes; the limit is %d (--max-result-bytes)", size, k.maxResult))
}

// Keywords of violations that say: what the request names does not exist.
const (
	keywordTask      = "task"
	keywordPrompt    = "prompt"
	keywordReference = "reference"
	keywordSkill     = "skill"
	keywordDirectory = "directory"
)

// NamesNothing reports whether the error of the response means that the request names a
// task, a prompt, a reference, a skill or a directory that does not exist. Its code is
// INVALID_PARAMS, because MCP has no code for that; an edge whose protocol has
// one (not_found in Connect) can use it.
func (r *Response) NamesNothing() bool { return r.Err != nil && namesNothing(r.Err) }

func namesNothing(err *errmap.Error) bool {
	if err.Code != errmap.InvalidParams || len(err.Violations) != 1 {
		return false
	}
	switch err.Violations[0].Keyword {
	case keywordTask, keywordPrompt, keywordReference, keywordSkill, keywordDirectory:
		return true
	}
	return false
}

// IsMissing reports whether the error of the response means that the backend said that there is no such thing.
func (r *Response) IsMissing() bool { return r.Err != nil && isMissing(r.Err) }

func isMissing(err *errmap.Error) bool {
	return err.Code == errmap.ToolExecutionFailed && err.BackendCode == "not_found"
}
