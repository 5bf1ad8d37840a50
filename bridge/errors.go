// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
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

// Keywords of violations that say: what the request names does not exist.
const (
	keywordTask      = "task"
	keywordPrompt    = "prompt"
	keywordReference = "reference"
	keywordSkill     = "skill"
	keywordDirectory = "directory"
)

func namesNothing(err *errmap.Error) bool {
	return err != nil && err.Code == errmap.InvalidParams && len(err.Violations) == 1 &&
		slices.Contains([]string{keywordTask, keywordPrompt, keywordReference, keywordSkill, keywordDirectory}, err.Violations[0].Keyword)
}

func isMissing(err *errmap.Error) bool {
	return err != nil && err.Code == errmap.ToolExecutionFailed && err.BackendCode == "not_found"
}

// retryAfter is the hint that goes with UNAVAILABLE where nothing better is known:
// about one backoff step of the catalog's loader.
const retryAfter = time.Second

// asError is the canonical form of an error of either side; what has none means that the
// caller has gone.
func asError(err error) *errmap.Error {
	var failed *errmap.Error
	if errors.As(err, &failed) {
		return failed
	}
	return errmap.Wrap(errmap.Cancelled, err)
}

// errOneMessage refuses a stream of other than one message where a method takes one.
func errOneMessage() *errmap.Error {
	return errmap.New(errmap.MethodNotFound, errmap.Message("Invalid request: this method takes exactly one request message"))
}

// panics logs panics where they are recovered.
type panics struct{ log *zap.Logger }

// recovered logs a recovered panic with its stack and returns INTERNAL_ERROR for the caller concerned.
func (w *panics) recovered(p any, fields ...zap.Field) *errmap.Error {
	w.log.Error("panic while handling a request", logkey.AppendPanic(fields, p, debug.Stack())...)
	return errmap.Wrap(errmap.InternalError, fmt.Errorf("panic: %v", p))
}
