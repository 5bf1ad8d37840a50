// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"strconv"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ReadProgressToken reads a progressToken with its JSON type: a string, or an
// integer of any size.
func ReadProgressToken(raw []byte) (*outriggerv1.Id, error) {
	var r reader
	most := compiled().token.MaxBytes
	raw = jsontext.Trim(raw)
	if text, ok := jsontext.Text(raw); ok {
		if len(text) > most {
			r.fail("Make it at most %d bytes long.", most)
			return nil, r.err
		}
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: text}}, nil
	}
	if n, ok := jsontext.Int64(raw); ok {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: n}}, nil
	}
	switch {
	case !jsontext.IsInteger(raw):
		r.fail("Make it a string or an integer, not %s.", kindOf(raw))
	case len(raw) > most:
		r.fail("Make it at most %d bytes long.", most)
	default:
		return &outriggerv1.Id{Kind: &outriggerv1.Id_BigInteger{BigInteger: string(raw)}}, nil
	}
	return nil, r.err
}

// AppendID appends a request id or a progress token with its JSON type.
func AppendID(dst []byte, id *outriggerv1.Id) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	switch kind := id.GetKind().(type) {
	case *outriggerv1.Id_Text:
		w.quote(kind.Text)
	case *outriggerv1.Id_Integer:
		w.dst = strconv.AppendInt(w.dst, kind.Integer, 10)
	case *outriggerv1.Id_BigInteger:
		digits := []byte(kind.BigInteger)
		if !jsontext.IsInteger(digits) || jsonrpc.Check(digits, jsonrpc.Limits{}) != nil {
			w.failIn("big_integer", "Give decimal digits without leading zeros, behind a minus sign where it is negative.")
		}
		w.raw(kind.BigInteger)
	default:
		w.fail("Set its value.")
	}
	return w.done()
}
