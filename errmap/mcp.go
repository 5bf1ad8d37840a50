// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Era is a family of MCP revisions in which errors look alike.
type Era uint8

const (
	// Modern is MCP 2026-07-28.
	Modern Era = iota + 1
	// Legacy is MCP 2025-11-25 and the revisions before it.
	Legacy
)

const (
	// maxVersionBytes bounds the echo of a protocol version; the known ones have ten bytes.
	maxVersionBytes = 1024
	// maxURIBytes bounds the echo of a resource's URI: what browsers and proxies take for granted.
	maxURIBytes = 2048
)

// MCP shows the error in an era of MCP. An unknown era counts as Modern.
func (e *Error) MCP(era Era, about About) Reply {
	e = e.known().Redacted()
	shown := e.row().shown(era)
	reply := Reply{
		Form:       e.form(shown, about),
		HTTPStatus: shown.HTTP,
		Code:       shown.Code,
		Message:    string(e.message()),
		RetryAfter: e.retryAfterHeader(),
		Challenge:  e.challenge(),
	}
	if shown.AltHTTP != 0 && (e.MissingMeta || e.NoSession) {
		reply.HTTPStatus = shown.AltHTTP
	}
	if reply.Form != ToolResult {
		reply.Message = e.withViolations(reply.Message)
		reply.Data = e.protocolData(era, about)
		return reply
	}
	reply.HTTPStatus = 200
	reply.RetryAfter, reply.Challenge = 0, "" // headers of a refusal; the response is a success
	reply.Text = e.ModelText(about)
	reply.Data = e.Data(about)
	return reply
}

// maxMessageViolations bounds the violations in the message of a protocol error, which is one line; data holds more.
const maxMessageViolations = 5

// withViolations is a message with the violations that it does not name itself: most clients show a model the message alone.
func (e *Error) withViolations(message string) string {
	if e.Code == InternalError {
		return message
	}
	var b strings.Builder
	b.WriteString(message)
	mark, named := ": ", 0
	if message != e.row().Message {
		mark = "; "
	}
	for i, v := range e.Violations {
		text := clip(v.Message, maxViolationBytes)
		if strings.Contains(message, text) {
			continue
		}
		if named == maxMessageViolations {
			write(&b, "; and ", strconv.Itoa(len(e.Violations)-i), " more")
			break
		}
		b.WriteString(mark)
		if path := clip(v.Path, maxNameBytes); path != "" && !strings.Contains(text, path) {
			write(&b, path, ": ")
		}
		b.WriteString(text)
		mark = "; "
		named++
	}
	return b.String()
}

// shown returns the column of an era.
func (r *Row) shown(era Era) Shown {
	if era == Legacy {
		return r.Legacy
	}
	return r.Modern
}

// form settles the form of this failure.
func (e *Error) form(shown Shown, about About) Form {
	switch {
	case shown.Form != ToolResult:
		return shown.Form
	case !about.ToolCall:
		return ProtocolError
	case e.Code == PermissionDenied && e.Challenge != "":
		return ProtocolError // a missing scope: the client can get one, a model cannot
	default:
		return ToolResult
	}
}

// protocolData is error.data. Two codes of MCP 2026-07-28 have a shape of their own; everything else is the data object
// with what the failure adds.
func (e *Error) protocolData(era Era, about About) json.RawMessage {
	if era != Legacy {
		switch e.Code {
		case UnsupportedProtocolVersion:
			return append(e.appendVersions([]byte{'{'}), '}')
		case MissingClientCapability:
			return append(e.appendCapabilities([]byte{'{'}), '}')
		}
	}
	dst := e.appendOpenData(make([]byte, 0, 256), about)
	switch e.Code {
	case UnsupportedProtocolVersion:
		dst = e.appendVersions(append(dst, ','))
	case MissingClientCapability:
		dst = e.appendCapabilities(append(dst, ','))
	case ResourceNotFound:
		dst = append(dst, `,"uri":`...)
		dst = jsontext.AppendString(dst, clip(e.URI, maxURIBytes))
	case ToolNotFound:
		if len(e.Nearest) > 0 {
			dst = append(dst, `,"nearest":`...)
			dst = appendStrings(dst, e.Nearest)
		}
	}
	return append(dst, '}')
}

// appendVersions appends the members of UnsupportedProtocolVersionError.data; both are required.
func (e *Error) appendVersions(dst []byte) []byte {
	dst = append(dst, `"supported":`...)
	dst = appendStrings(dst, e.Supported)
	dst = append(dst, `,"requested":`...)
	return jsontext.AppendString(dst, clip(e.Requested, maxVersionBytes))
}

// appendCapabilities appends the member of MissingRequiredClientCapabilityError.data: an object, never a list.
func (e *Error) appendCapabilities(dst []byte) []byte {
	dst = append(dst, `"requiredCapabilities":`...)
	return append(dst, capabilitiesJSON(e.RequiredCapabilities)...)
}
