// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Detail returns the error as the outrigger.v1.ErrorDetail of a ToolResult; its details are the data object.
func (e *Error) Detail(about About) *outriggerv1.ErrorDetail {
	e = e.known()
	return &outriggerv1.ErrorDetail{
		ErrorType:    e.Type(),
		ErrorMessage: string(e.message()),
		ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{
			ErrorDetailsJson: e.Data(about),
		},
	}
}

// maxTrailerBytes bounds the violations of a Connect error. gRPC carries details in a trailer, and proxies refuse header
// blocks of some sixty kilobytes; violations stand there twice.
const maxTrailerBytes = 8 << 10

// lean is e for a Connect error: without the backend's details, which travel beside the data object, and with as many
// violations as a trailer bears.
func (e *Error) lean() *Error {
	lean := *e
	lean.ErrorType = e.Type() // which the details may decide
	lean.Details = nil
	size := 0
	for i, v := range e.Violations {
		size += min(len(v.Path), maxViolationBytes) + min(len(v.Keyword), maxViolationBytes) + min(len(v.Message), maxViolationBytes)
		if size > maxTrailerBytes || i == maxViolations {
			lean.Violations = e.Violations[:i]
			break
		}
	}
	return &lean
}

// leanRules are the broken rules as a trailer bears them, nil for none.
func (e *Error) leanRules() *validate.Violations {
	size := 0
	all := e.Broken.GetViolations()
	for i, v := range all {
		if size += proto.Size(v); size > maxTrailerBytes || i == maxViolations {
			all = all[:i]
			break
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &validate.Violations{Violations: all}
}

// The bounds of the violations in a message. The details have more of them.
const (
	maxFieldsInMessage     = 5
	maxFieldInMessageBytes = 256
)

// fieldMessage is the message for callers over Connect, gRPC and gRPC-Web, whose logs often have nothing else of an error:
// where it says no more than the code, with the violations and their fields.
func (e *Error) fieldMessage() string {
	text := string(e.message())
	if e.Message != "" || text != e.row().Message || e.Code == InternalError {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	for i, v := range e.Violations {
		if i == maxFieldsInMessage {
			b.WriteString("; and " + strconv.Itoa(len(e.Violations)-i) + " more")
			break
		}
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if field := clip(fieldPath(e.Document, v.Path), maxFieldInMessageBytes); field != "" {
			b.WriteString(field + ": ")
		}
		b.WriteString(Redact(clip(v.Message, maxFieldInMessageBytes)))
	}
	return b.String()
}

// withoutFields is the message of another sidecar's error without the fields that [Error.fieldMessage] adds.
func withoutFields(message string, details []*anypb.Any) string {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if isErrorDetail(d) && d.UnmarshalTo(detail) == nil && detail.GetErrorMessage() != "" && strings.HasPrefix(message, detail.GetErrorMessage()+": ") {
			return detail.GetErrorMessage()
		}
	}
	return message
}

// ourViolations are the violations in another sidecar's ErrorDetail, whose paths and keywords are as they were.
func ourViolations(details []*anypb.Any) []Violation {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if !isErrorDetail(d) || d.UnmarshalTo(detail) != nil {
			continue
		}
		var data struct {
			Violations []Violation `json:"violations"`
		}
		if json.Unmarshal(detail.GetErrorDetailsJson(), &data) == nil && len(data.Violations) > 0 {
			return data.Violations[:min(len(data.Violations), maxViolations)]
		}
	}
	return nil
}

// redactErrorDetail redacts the JSON that an ErrorDetail holds as bytes, and reports whether it changed. Bytes that are no
// JSON are dropped.
func redactErrorDetail(detail *outriggerv1.ErrorDetail) bool {
	text := detail.GetErrorDetailsJson()
	if len(text) == 0 {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // 64-bit numbers keep their digits
	var value any
	if decoder.Decode(&value) != nil || decoder.More() {
		detail.ErrorDetailsForm = nil
		return true
	}
	clean, changed := redactJSON(value)
	if !changed {
		return false
	}
	out, err := json.Marshal(clean)
	if err != nil {
		detail.ErrorDetailsForm = nil
		return true
	}
	detail.ErrorDetailsForm = &outriggerv1.ErrorDetail_ErrorDetailsJson{ErrorDetailsJson: out}
	return true
}

// redactJSON redacts the strings of a JSON value, those of an object together with their names.
func redactJSON(value any) (any, bool) {
	changed := false
	switch v := value.(type) {
	case string:
		return redactString(v)
	case []any:
		for i := range v {
			clean, differs := redactJSON(v[i])
			v[i], changed = clean, changed || differs
		}
	case map[string]any:
		for name, member := range v {
			clean, differs := redactJSON(member)
			if text, ok := clean.(string); ok && !differs {
				clean, differs = redactPair(name, text)
			}
			v[name], changed = clean, changed || differs
		}
	}
	return value, changed
}

// errorDetailJSON renders a backend's ErrorDetail with its details as JSON, not as base64; nil where d is none.
func errorDetailJSON(d *anypb.Any) []byte {
	detail := new(outriggerv1.ErrorDetail)
	if !d.MessageIs(detail) || d.UnmarshalTo(detail) != nil || !json.Valid(detail.GetErrorDetailsJson()) {
		return nil
	}
	dst := jsontext.AppendString([]byte(`{"@type":`), clip(d.GetTypeUrl(), maxNameBytes))
	dst = append(dst, `,"error_type":`...)
	dst = jsontext.AppendString(dst, detail.GetErrorType())
	dst = append(dst, `,"error_message":`...)
	dst = jsontext.AppendString(dst, detail.GetErrorMessage())
	dst = append(dst, `,"error_details":`...)
	var compact bytes.Buffer
	if json.Compact(&compact, detail.GetErrorDetailsJson()) != nil {
		return nil
	}
	return append(append(dst, compact.Bytes()...), '}')
}

// declaredType is the error type that a native backend, or another sidecar, declared; "" for none.
func declaredType(details []*anypb.Any) string {
	for _, d := range details {
		detail := new(outriggerv1.ErrorDetail)
		if d.MessageIs(detail) && d.UnmarshalTo(detail) == nil && validErrorType(detail.GetErrorType()) {
			return detail.GetErrorType()
		}
	}
	return ""
}

func isErrorDetail(d *anypb.Any) bool {
	return d.MessageIs((*outriggerv1.ErrorDetail)(nil))
}
