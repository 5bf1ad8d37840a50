// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ID is the id of a request and of its response. It keeps the original bytes, to
// echo them, and the decoded value, to compare it. The zero ID means absent. IDs
// share no memory with the input they were read from. Compare them with Equal or by
// Key; == also compares how they were written.
type ID struct {
	// text is the key followed by the raw bytes: one allocation for both.
	text string
	cut  int
}

// StringID returns the id of a string, written in its shortest form. Invalid UTF-8
// becomes U+FFFD.
func StringID(s string) ID {
	id, _ := readID(jsontext.AppendString(nil, s), capBytes)
	return id
}

// IntID returns the id of an integer.
func IntID(n int64) ID {
	id, _ := readID(strconv.AppendInt(nil, n, 10), capBytes)
	return id
}

// ParseID parses an id from one JSON value, within the default limits. The error is a *Fault: FaultParse if raw is not
// JSON, FaultEnvelope if it is not an id.
func ParseID(raw []byte) (ID, error) {
	return Limits{}.ParseID(raw)
}

// ParseID is the function ParseID with these limits.
func (l Limits) ParseID(raw []byte) (ID, error) {
	if f := Check(raw, l); f != nil {
		return ID{}, f
	}
	id, reason := readID(jsontext.Trim(raw), l.WithDefaults().MaxIDBytes)
	if reason != "" {
		return ID{}, l.WithDefaults().idFault("", reason)
	}
	return id, nil
}

// readID reads an id from checked JSON. An empty reason means success.
func readID(raw []byte, maxBytes int) (id ID, reason string) {
	var buffer [128]byte // a UUID, twice, and its quotes
	switch {
	case raw[0] == '"':
		if len(raw)-len(`""`) > maxBytes {
			return ID{}, tooLongID(maxBytes)
		}
		key := jsontext.AppendDecoded(append(buffer[:0], "s:"...), raw)
		return ID{text: string(append(key, raw...)), cut: len(key)}, ""
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		return ID{}, "Make the id a string or an integer, not " + jsontext.TypeName(raw) + "."
	case !jsontext.IsInteger(raw):
		return ID{}, "Make the id a string or an integer; it has a fraction or an exponent."
	case len(raw) > maxBytes:
		return ID{}, tooLongID(maxBytes)
	}
	// The grammar leaves one spelling for each integer, but two for zero.
	value := raw
	if string(raw) == "-0" {
		value = raw[1:]
	}
	key := append(append(buffer[:0], "n:"...), value...)
	return ID{text: string(append(key, raw...)), cut: len(key)}, ""
}

// idFault is the fault of an id that is refused for this reason.
func (l Limits) idFault(path, reason string) *Fault {
	f := envelopeFault(path, reason)
	if reason == tooLongID(l.MaxIDBytes) {
		f.Over = OverIDBytes
	}
	return f
}

func tooLongID(maxBytes int) string {
	return "Make the id at most " + strconv.Itoa(maxBytes) + " bytes long."
}

// IsZero reports whether the id is absent.
func (id ID) IsZero() bool { return id.text == "" }

// IsString reports whether the id is a JSON string.
func (id ID) IsString() bool { return id.cut > 0 && id.text[0] == 's' }

// Key identifies the value: "s:" and the decoded string, or "n:" and the
// integer in its canonical spelling. Equal ids have equal keys. It is "" for
// the zero ID and allocates nothing.
func (id ID) Key() string { return id.text[:id.cut] }

// Equal reports whether both ids have the same type and value, or are both absent.
func (id ID) Equal(other ID) bool { return id.Key() == other.Key() }

// Raw returns the original bytes of the id, or nil for the zero ID.
func (id ID) Raw() json.RawMessage {
	if id.IsZero() {
		return nil
	}
	return json.RawMessage(id.text[id.cut:])
}

// String returns the original text of the id, for logs; "" for the zero ID.
func (id ID) String() string { return id.text[id.cut:] }

// Text returns the decoded value of a string id.
func (id ID) Text() (string, bool) {
	if !id.IsString() {
		return "", false
	}
	return id.text[len("s:"):id.cut], true
}

// Int64 returns the value of an integer id that fits an int64.
func (id ID) Int64() (int64, bool) {
	if id.IsZero() || id.IsString() {
		return 0, false
	}
	n, err := strconv.ParseInt(id.text[len("n:"):id.cut], 10, 64)
	return n, err == nil
}

func appendID(dst []byte, id ID) []byte {
	if id.IsZero() {
		return append(dst, "null"...)
	}
	return append(dst, id.text[id.cut:]...)
}

// uuidBytes is the length of a UUID in its usual form.
const uuidBytes = 36

// isUUID reports whether an id is a UUID in its usual form, of any version.
func isUUID(id ID) bool {
	text, ok := id.Text()
	if !ok || len(text) != uuidBytes {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if jsontext.HexValue(c) < 0 {
				return false
			}
		}
	}
	return true
}
