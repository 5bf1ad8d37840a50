// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// headerParamPrefix begins the name of every header that repeats an argument
// (MCP 2026-07-28, custom headers).
const headerParamPrefix = "Mcp-Param-"

// Check implements [bridge.Envelope]: it compares the arguments that a tool wants
// repeated in HTTP headers with what the headers say, so that a proxy that
// routes by a header and a server that reads the body see the same call.
func (call *exchange) Check(tool *catalog.Tool, arguments []byte) *errmap.Error {
	if call.draft != nil {
		if err := call.draft.checkOutputs(tool); err != nil {
			return err
		}
	}
	if !call.era.mirrors || call.in.Header == nil {
		return nil
	}
	for i := range tool.HeaderParams {
		if err := call.mirror(tool, arguments, &tool.HeaderParams[i]); err != nil {
			return err
		}
	}
	return nil
}

// mirror compares one argument. A header for an argument that is absent or
// null is ignored, as the revision says.
func (call *exchange) mirror(tool *catalog.Tool, arguments []byte, p *catalog.HeaderParam) *errmap.Error {
	value, ok := argumentAt(tool, arguments, p.Path)
	if !ok || jsontext.IsNull(value) {
		return nil
	}
	name := headerParamPrefix + p.Header
	values := call.in.Header.Values(name)
	if call.req.Through != "" && len(values) == 0 {
		return nil // its client was not shown that the tool wants the header; one that is there has to be right
	}
	header, err := decodedHeader(values, name)
	if err != nil {
		return err
	}
	if !sameArgument(value, header) && !sameArgument(value, unmerged(header)) {
		return headerMismatch("%s is %s, the body has %s at %s", name, errmap.Quote(header), errmap.Quote(string(value)), p.Pointer)
	}
	return nil
}

// argumentAt finds an argument. Of a plain RPC's fields it knows both names that
// ProtoJSON has for each, or an argument could come under the name that is not
// looked at.
func argumentAt(tool *catalog.Tool, arguments []byte, path []string) (json.RawMessage, bool) {
	value := json.RawMessage(arguments)
	var message protoreflect.MessageDescriptor
	if !tool.Native {
		message = tool.Method.Descriptor.Input()
	}
	if !tool.Native && tool.TakesStream() { // its arguments are no message, and a parameter cannot be in a list
		message = nil
	}
	for _, name := range path {
		field := fieldNamed(message, name)
		if field == nil {
			message = nil
			var ok bool
			if value, ok = jsontext.Lookup(value, name); !ok {
				return nil, false
			}
			continue
		}
		inner, ok := jsontext.Lookup(value, field.JSONName())
		if !ok || jsontext.IsNull(inner) {
			if inner, ok = jsontext.Lookup(value, string(field.Name())); !ok {
				return nil, false
			}
		}
		value, message = inner, nil
		if !field.IsMap() && !field.IsList() {
			message = field.Message()
		}
	}
	return value, true
}

// fieldNamed returns the field that ProtoJSON reads a name as; nil for none.
func fieldNamed(message protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if message == nil {
		return nil
	}
	if field := message.Fields().ByJSONName(name); field != nil {
		return field
	}
	return message.Fields().ByName(protoreflect.Name(name))
}

// sameArgument compares strings exactly, booleans by their names and numbers by
// their value. An argument of another kind is no string, and the schema refuses
// it later, so that only its header has to be there.
func sameArgument(value json.RawMessage, header string) bool {
	if text, ok := jsontext.Text(value); ok {
		return text == header
	}
	switch value[0] {
	case 't', 'f':
		return string(value) == header
	case '{', '[':
		return false
	}
	return sameNumber(string(value), header)
}

// maxHeaderNumber bounds the bytes of a number in a header: integers that may
// be mirrored have 16 digits, and room is left for a fraction of zeros.
const maxHeaderNumber = 64

// sameNumber compares two numbers as JSON writes them by their value. A header
// that is no such number is no number at all: a proxy that routes by it could read
// 0b101 in more than one way.
func sameNumber(a, b string) bool {
	if len(a) > maxHeaderNumber || len(b) > maxHeaderNumber {
		return a == b
	}
	x, ok1 := readDecimal(a)
	y, ok2 := readDecimal(b)
	return ok1 && ok2 && x == y
}

// decimal is a number in the one form that each number has: 0.digits times ten
// to the power of exponent, without zeros at the ends of digits.
type decimal struct {
	isNegative bool
	digits     string
	exponent   int
}

// readDecimal reads a number (RFC 8259, section 6) of at most maxHeaderNumber
// bytes.
func readDecimal(text string) (decimal, bool) {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return decimal{}, false
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa, isNegative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{}, true // zero has neither a sign nor a size
	}
	exponent := len(digits) - len(fraction)
	if power != "" {
		n, err := strconv.Atoi(power)
		if err != nil || n > math.MaxInt32 || n < math.MinInt32 {
			return decimal{}, false // no integer that a client may send is near it
		}
		exponent += n
	}
	return decimal{isNegative: isNegative, digits: strings.TrimRight(digits, "0"), exponent: exponent}, true
}

// headerMismatch is HEADER_MISMATCH with what differs.
func headerMismatch(format string, args ...any) *errmap.Error {
	return errmap.Because(errmap.HeaderMismatch, fmt.Sprintf(format, args...))
}

// decodedHeader is a header that is there once, decoded.
func decodedHeader(values []string, name string) (string, *errmap.Error) {
	value, err := singleHeader(values, name)
	if err != nil {
		return "", err
	}
	plain, ok := decodeSentinel(value)
	if !ok {
		plain, ok = decodeSentinel(unmerged(value))
	}
	if !ok {
		return "", headerMismatch("header %s is not a valid =?base64?...?= value", name)
	}
	return plain, nil
}

// decodeSentinel reads a header value that may be wrapped as =?base64?...?=.
// Anything without the exact prefix and suffix is literal; inside them the
// alphabet and the padding are standard and the bytes are UTF-8 (MCP
// 2026-07-28, header encoding).
func decodeSentinel(value string) (string, bool) {
	const prefix, suffix = "=?base64?", "?="
	if len(value) < len(prefix)+len(suffix) || !strings.HasPrefix(value, prefix) || !strings.HasSuffix(value, suffix) {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(value[len(prefix) : len(value)-len(suffix)])
	if err != nil || !utf8.Valid(decoded) {
		return "", false
	}
	return string(decoded), true
}

// singleHeader returns a header's value without surrounding white space.
// Repeated lines are admitted where they say the same.
func singleHeader(values []string, name string) (string, *errmap.Error) {
	if len(values) == 0 {
		return "", headerMismatch("header %s is missing", name)
	}
	value := strings.Trim(values[0], " \t")
	for _, other := range values[1:] {
		if strings.Trim(other, " \t") != value {
			return "", headerMismatch("header %s is repeated with different values", name)
		}
	}
	for i := range len(value) {
		if c := value[i]; c != '\t' && (c < 0x20 || c > 0x7E) {
			return "", headerMismatch("header %s contains a byte outside visible ASCII; send such values as =?base64?...?=", name)
		}
	}
	return value, nil
}

// matchHeader checks that a header, whose name is in its canonical form, is there, once, and equal to the body.
func matchHeader(h http.Header, name, want string) *errmap.Error {
	got, err := singleHeader(h[name], name)
	if err != nil {
		return err
	}
	if got != want && unmerged(got) != want {
		return headerMismatch("%s is %s, the body has %s", name, errmap.Quote(got), errmap.Quote(want))
	}
	return nil
}
