// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// maxViolations is how many breaches an error names. A page may hold thousands of
// tools with the same one; a few show what to mend.
const maxViolations = 16

// InvalidAnswerError means that the backend's response breaks the contract. It is for
// operators and the backend's developers: the response is lost, whatever it contained,
// and the same request may fail again.
type InvalidAnswerError struct {
	// Procedure is the RPC ("/outrigger.v1.ToolService/ListTools").
	Procedure string
	// Violations are the first 16 violations at most, and never empty. They name rules
	// and locations. Map keys are the only contents of the response that they hold.
	Violations []Violation
	// More is the number of violations left out.
	More int
}

// Violation is one violation of the contract.
type Violation struct {
	// Path is the JSON Pointer (RFC 6901) of the field, with the contract's snake_case
	// names. "" means the message, or the sequence of messages, as a whole.
	Path string
	// Keyword is the rule's id ("string.pattern"), or one of the Keyword constants.
	Keyword string
	// Message says briefly what was expected.
	Message string
}

// Keywords of violations that no rule of a single message can express.
const (
	// KeywordEncoding means that the bytes are not a message of the expected type.
	KeywordEncoding = "encoding"
	// KeywordOutcome means that a stream of events ended without an outcome.
	KeywordOutcome = "outcome.missing"
	// KeywordAcknowledged means that a change feed did not begin with its
	// acknowledgement, or had another one later.
	KeywordAcknowledged = "acknowledged.first"
	// KeywordCursor means that a page has the same cursor as an earlier page.
	KeywordCursor = "cursor.repeated"
	// KeywordLimit means that a list is longer than allowed.
	KeywordLimit = "list.limit"
)

// Error implements error.
func (e *InvalidAnswerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "native: the response of %s violates the contract", e.Procedure)
	for i, v := range e.Violations {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if v.Path != "" {
			b.WriteString(v.Path + ": ")
		}
		fmt.Fprintf(&b, "%s [%s]", v.Message, v.Keyword)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// Unwrap returns a matching *backend.Error for code that knows only the backend's
// errors: a response came and violates the protocol.
func (e *InvalidAnswerError) Unwrap() error {
	return &backend.Error{
		Kind: backend.KindGarbage, Code: connect.CodeInternal, Sent: true,
		Message: "the backend's response violates the contract",
	}
}

// invalid makes an error of one breach.
func invalid(procedure, keyword, format string, args ...any) *InvalidAnswerError {
	return &InvalidAnswerError{Procedure: procedure, Violations: []Violation{{Keyword: keyword, Message: fmt.Sprintf(format, args...)}}}
}

// broken makes an error of broken rules.
func broken(procedure string, found []*protovalidate.Violation) *InvalidAnswerError {
	named := min(len(found), maxViolations)
	e := &InvalidAnswerError{Procedure: procedure, More: len(found) - named}
	for _, v := range found[:named] {
		message := v.Proto.GetMessage()
		if message == "" {
			message = "the rule is violated"
		}
		e.Violations = append(e.Violations, Violation{
			Path: pointer(v.Proto.GetField()), Keyword: v.Proto.GetRuleId(), Message: message,
		})
	}
	return e
}

// unimplemented reports whether the backend said that it does not offer the RPC.
func unimplemented(err error) bool {
	var e *backend.Error
	return errors.As(err, &e) && e.Kind == backend.KindStatus && e.Code == connect.CodeUnimplemented
}

// pointer writes a field's path as a JSON Pointer. The JSON names of the contract
// are its Protobuf names.
func pointer(path *validate.FieldPath) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, element := range path.GetElements() {
		b.WriteString("/" + escape.Replace(element.GetFieldName()))
		switch at := element.GetSubscript().(type) {
		case *validate.FieldPathElement_Index:
			b.WriteString("/" + strconv.FormatUint(at.Index, 10))
		case *validate.FieldPathElement_StringKey:
			b.WriteString("/" + escape.Replace(at.StringKey)) // the contract has no maps with other keys
		}
	}
	return b.String()
}
