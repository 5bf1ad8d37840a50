// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// plainBase64 reads base64 letter by letter (RFC 4648, section 4): four letters
// of the alphabet stand for three bytes, the end is padded, and bits that stand
// for nothing are zero.
func plainBase64(text string) (string, bool) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	if len(text)%4 != 0 {
		return "", false
	}
	letters := strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	var out []byte
	bits, held := 0, 0
	for _, letter := range []byte(letters) {
		value := strings.IndexByte(alphabet, letter)
		if value < 0 {
			return "", false
		}
		bits, held = bits<<6|value, held+6
		if held >= 8 {
			held -= 8
			out = append(out, byte(bits>>held))
			bits &= 1<<held - 1
		}
	}
	return string(out), bits == 0 && held < 6
}

// plainHeader says what a header means, rule by rule.
func plainHeader(lines []string) (string, bool) {
	if len(lines) == 0 {
		return "", false
	}
	value := strings.Trim(lines[0], " \t")
	for _, line := range lines {
		if strings.Trim(line, " \t") != value {
			return "", false
		}
	}
	for _, c := range []byte(value) {
		if c != '\t' && (c < ' ' || c > '~') {
			return "", false
		}
	}
	if len(value) < 11 || value[:9] != "=?base64?" || value[len(value)-2:] != "?=" {
		return value, true
	}
	text, ok := plainBase64(value[9 : len(value)-2])
	return text, ok && utf8.ValidString(text)
}

func FuzzDecodedHeader(f *testing.F) {
	for _, seed := range []string{
		"", "plain", " padded\t", "a\nb", "=?base64?SGVsbG8=?=", "=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?BASE64?SGVsbG8=?=",
		"=?base64?=", "=?base64??=", "=?base64?SGVsbG9=?=", "=?base64?/w==?=", "=?base64?PT9iYXNlNjQ/?=?=", "=?base64?SGVs\nbG8=?=", "=?base64?====?=", "é", "a\x00", "a\n a",
	} {
		f.Add(seed, byte(0))
		f.Add(seed, byte(3))
	}
	f.Fuzz(func(t *testing.T, text string, lines byte) {
		var values []string
		for i := range int(lines % 4) {
			values = append(values, text)
			if i == 1 && lines > 127 {
				values[1] += "x"
			}
		}
		if lines%4 == 0 {
			values = strings.Split(text, "\n")
		}
		want, wantOK := plainHeader(values)
		got, err := decodedHeader(values, "Mcp-Name")
		if (err == nil) != wantOK || wantOK && got != want {
			t.Errorf("%q: got %q, %v; want %q, %v", values, got, err, want, wantOK)
		}
	})
}

// number is how JSON writes numbers (RFC 8259, section 6).
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// plainSame compares an argument with a header, rule by rule; the second result
// is false where the comparison would take too long.
func plainSame(value any, header string) (same, known bool) {
	switch v := value.(type) {
	case string:
		return v == header, true
	case bool:
		return header == map[bool]string{true: "true", false: "false"}[v], true
	case json.Number:
		if !number.MatchString(header) || len(header) > maxHeaderNumber || len(v) > maxHeaderNumber {
			return len(v) > maxHeaderNumber && header == string(v), true
		}
		for _, text := range []string{string(v), header} {
			if _, power, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(power, "+-0")) > 3 {
				return false, false
			}
		}
		a, ok1 := new(big.Rat).SetString(string(v))
		b, ok2 := new(big.Rat).SetString(header)
		return ok1 && ok2 && a.Cmp(b) == 0, true
	}
	return false, true
}

// mirrored are arguments that a tool has repeated in headers.
func mirrored() []catalog.HeaderParam {
	return []catalog.HeaderParam{
		{Header: "A", Path: []string{"a"}, Pointer: "/a"},
		{Header: "B", Path: []string{"b", "c"}, Pointer: "/b/c"},
	}
}

// plainMirror says whether headers repeat arguments, rule by rule.
func plainMirror(arguments map[string]any, header http.Header) (same, known bool) {
	for _, p := range mirrored() {
		var value any = arguments
		for _, name := range p.Path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		if value == nil {
			continue // absent or null
		}
		text, ok := plainHeader(header.Values("Mcp-Param-" + p.Header))
		if !ok {
			return false, true
		}
		if same, known := plainSame(value, text); !same || !known {
			return same, known
		}
	}
	return true, true
}

func FuzzMirror(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"a":"x"}`, "x", ""}, {`{"a":"x"}`, "y", ""}, {`{"a":42}`, "42.0", ""}, {`{"a":4.20e1}`, "42", ""}, {`{"a":0}`, "-0.0e7", ""},
		{`{"a":true}`, "true", ""}, {`{"a":false}`, "False", ""}, {`{"a":null}`, "x", ""}, {`{"a":{}}`, "{}", ""}, {`{"a":[]}`, "[]", ""},
		{`{"a":9007199254740993}`, "9007199254740992", ""}, {`{"a":5}`, "0b101", ""}, {`{"a":5}`, "+5", ""}, {`{"a":5}`, "10/2", ""}, {`{"a":5}`, "5.", ""},
		{`{"a":1e1000001}`, "1e1000001", ""}, {`{"a":1e-99999999999}`, "0", ""}, {`{"a":"\u0078"}`, "x", ""}, {`{"a":""}`, "", ""},
		{`{"b":{"c":"x"}}`, "", "x"}, {`{"b":{"c":"x"}}`, "", "=?base64?eA==?="}, {`{"b":7}`, "", "7"}, {`{"b":{"c":{"d":1}}}`, "", "x"}, {`{"b.c":"x"}`, "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, arguments, a, b string) {
		message := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":`+arguments+`}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
		if message.Fault != nil {
			return // it never gets here
		}
		decoder := json.NewDecoder(strings.NewReader(arguments))
		decoder.UseNumber()
		var plain map[string]any
		if err := decoder.Decode(&plain); err != nil {
			t.Fatalf("%q passed for params: %v", arguments, err)
		}
		header := http.Header{}
		if a != "" {
			header.Set("Mcp-Param-A", a)
		}
		if b != "" {
			header.Set("Mcp-Param-B", b)
		}
		want, known := plainMirror(plain, header)
		if !known {
			return
		}
		call := &exchange{era: newModern(false), in: &Inbound{Header: header}, req: &bridge.Request{}}
		err := call.Check(&catalog.Tool{Native: true, HeaderParams: mirrored()}, message.Params)
		if (err == nil) != want {
			t.Errorf("%s with %v: got %v, want it to be the same: %v", arguments, header, err, want)
		}
	})
}
