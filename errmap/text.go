// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxNameBytes bounds a name or URI that a message echoes: callers choose them.
	maxNameBytes = 256
	// maxTextViolations bounds the violations in a text for a model; data holds more. Past twenty faults a call is not
	// mended fault by fault.
	maxTextViolations = 20
	// maxRetryAfter bounds what a peer can make a caller wait, and keeps the number sane.
	maxRetryAfter = 24 * time.Hour
	// defaultRetryAfter is for Retry-After where the wait is not known: the header counts in seconds, and one is its
	// smallest wait.
	defaultRetryAfter = time.Second
)

// message is the sentence for the caller, redacted and bounded: the error's own, else the row's.
func (e *Error) message() safeText {
	e = e.known()
	row := e.row()
	switch {
	case e.Code == InternalError:
		return safeText(row.Message) // whatever was set may tell of the inside
	case e.Code == ToolNotFound && e.Tool != "":
		return safeText(row.Message + ": " + clip(e.Tool, maxNameBytes))
	}
	if text := e.redaction().text; text != "" {
		return text
	}
	return safeText(row.Message)
}

// ModelText returns the text of a failed tool result, for models: what went wrong, where, and what to do next. Where a
// backend names fields of Document as its .proto file does, the names of the arguments are beside them.
func (e *Error) ModelText(about About) string {
	e = e.known()
	row := e.row()
	var b strings.Builder
	message, advice := string(e.message()), e.advice(about.Idempotent)
	var names argumentNames
	if e.FromTool() && (len(e.Details) > 0 || strings.ContainsAny(message, "_\"'`")) {
		names = argumentNamesOf(e.Document)
		message = names.explain(message)
	}
	const marks = 8 // what stands between the parts
	b.Grow(len(row.Message) + len(message) + min(len(e.Tool), maxNameBytes) + len(advice) + marks)
	switch {
	case e.Code == ToolNotFound:
		b.WriteString(message) // names the tool already
	case row.Fixed || e.Message == "":
		b.WriteString(row.Message)
		if e.Tool != "" {
			write(&b, " (", clip(e.Tool, maxNameBytes), ")")
		}
		if message != row.Message {
			write(&b, ": ", message)
		}
	default:
		if e.Tool != "" {
			write(&b, clip(e.Tool, maxNameBytes), ": ")
		}
		b.WriteString(message)
	}
	faults := e.Violations
	if len(faults) == 0 {
		faults = fieldFaults(e.Details)
	}
	for i, v := range faults {
		if i == maxTextViolations {
			b.WriteString("\n- and " + strconv.Itoa(len(faults)-i) + " more")
			break
		}
		b.WriteString("\n- ")
		if path := clip(v.Path, maxNameBytes); path != "" {
			b.WriteString(names.path(path) + ": ")
		}
		b.WriteString(names.explain(clip(v.Message, maxViolationBytes)))
	}
	if e.ItemsSent != nil && *e.ItemsSent > 0 {
		write(&b, "\nItems sent before: ", strconv.Itoa(*e.ItemsSent), ". The tool may have taken them.")
	}
	if advice != "" {
		write(&b, "\n", advice)
	}
	return b.String()
}

func write(b *strings.Builder, parts ...string) {
	for _, part := range parts {
		b.WriteString(part)
	}
}

// advice is what to do next.
func (e *Error) advice(idempotent bool) string {
	if e.Advice != "" {
		return Redact(e.Advice)
	}
	if e.CanRetry(idempotent) {
		if wait := e.retryAfter(); wait > 0 {
			return "Try again in " + strconv.Itoa(seconds(wait)) + " s."
		}
		return "The same call may be retried."
	}
	switch e.Code {
	case InvalidToolInput, InvalidParams:
		return "Correct the arguments and call again."
	case Timeout, TransportError:
		return "The tool may or may not have run. Check before you call it again."
	case DestructiveBlocked:
		return "An operator must allow destructive tools. Do not retry before that."
	case PermissionDenied:
		return "The same call will be refused again."
	case ResourceExhausted:
		return "Ask for less in one call."
	case InvalidToolOutput, SerializationError:
		return "The tool may have run, but its response cannot be used. Calling it again will not help."
	case MissingClientCapability:
		return "The tool needs a client with this capability."
	default:
		return ""
	}
}

// retryAfter is the known wait, within bounds; 0 where it is not known.
func (e *Error) retryAfter() time.Duration {
	return min(max(e.RetryAfter, 0), maxRetryAfter)
}

// retryAfterHeader is the value of Retry-After in seconds; 0 for none. The two codes that ask the caller to wait always
// have one.
func (e *Error) retryAfterHeader() int {
	wait := e.retryAfter()
	if wait == 0 && (e.Code == RateLimited || e.Code == Unavailable) {
		wait = defaultRetryAfter
	}
	return seconds(wait)
}

// seconds rounds up: an early retry is refused again.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}

// clip makes a string from outside safe to echo: clean, on one line, and of at most limit bytes.
func clip(s string, limit int) string {
	if len(s) > 2*limit {
		s = s[:2*limit] // what is cut off here would not be shown; a rune cut in half is replaced by clean
	}
	return truncate(cleanLine(s), limit)
}

// truncate cuts s at a rune boundary to at most limit bytes, the mark included.
func truncate(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
