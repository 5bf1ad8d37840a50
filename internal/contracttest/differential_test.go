// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// canonicalProfiles are the three meanings of an id in the canonical dialect.
var canonicalProfiles = []jsonrpc.Profile{jsonrpc.ProfileCanonical, jsonrpc.ProfileCanonicalAnyID, jsonrpc.ProfileCanonicalUUID}

// tb is what a test, a fuzz target and a property have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// verdict is what an implementation makes of a payload: its kind as far as it
// is known and, where it is refused, by which stage.
type verdict struct {
	Kind    jsonrpc.Kind
	Refused jsonrpc.FaultCode
}

// byTheBook is the second implementation of the contract: the typing rule over
// a decoded map, then the JSON Schema of the type. What neither can see is
// added as the contract words it, and is all that is added: strict JSON of 64
// levels, names that fold into a reserved one, and how long an id is and how an
// integer id is written.
func byTheBook(t tb, schemas *contracttest.Envelope, raw []byte) verdict {
	t.Helper()
	if !isStrictJSON(raw) {
		return verdict{Refused: jsonrpc.FaultParse}
	}
	var message map[string]json.RawMessage
	if json.Unmarshal(raw, &message) != nil || message == nil || hasFoldedName(message) {
		return verdict{Refused: jsonrpc.FaultEnvelope}
	}
	kind := typed(message)
	if kind == jsonrpc.KindInvalid || !meetsSchema(t, schemas, kind, message, raw) || !isEchoable(message["id"]) {
		return verdict{Kind: kind, Refused: jsonrpc.FaultEnvelope}
	}
	return verdict{Kind: kind}
}

// isStrictJSON asks another parser, which refuses names that appear twice.
func isStrictJSON(raw []byte) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for values := 0; ; {
		_, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) && decoder.StackDepth() == 0 {
			return values == 1
		}
		if err != nil || decoder.StackDepth() > defaults.MaxJSONDepth {
			return false
		}
		if decoder.StackDepth() == 0 {
			values++
		}
	}
}

func hasFoldedName(message map[string]json.RawMessage) bool {
	for name := range message {
		visible := strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cc, unicode.Cf) {
				return -1
			}
			return r
		}, name)
		for _, reserved := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if name != reserved && foldsInto(visible, reserved) {
				return true
			}
		}
	}
	return false
}

// foldsInto compares by every folding that Unicode knows, the Turkish i's too.
func foldsInto(name, ascii string) bool {
	runes := []rune(name)
	if len(runes) != len(ascii) {
		return false
	}
	for i, r := range runes {
		want := rune(ascii[i])
		same := strings.EqualFold(string(r), string(want)) || unicode.ToLower(r) == want || unicode.ToUpper(r) == unicode.ToUpper(want)
		if !same {
			return false
		}
	}
	return true
}

// typed is the typing rule: a member is present if it exists, even as null.
func typed(message map[string]json.RawMessage) jsonrpc.Kind {
	has := func(name string) bool { _, ok := message[name]; return ok }
	switch {
	case has("method") && !has("result") && !has("error"):
		if !has("id") {
			return jsonrpc.KindNotification
		}
		if string(message["id"]) != "null" {
			return jsonrpc.KindRequest
		}
	case has("result") && has("id") && !has("method") && !has("error"):
		return jsonrpc.KindSuccess
	case has("error") && !has("method") && !has("result"):
		return jsonrpc.KindError
	}
	return jsonrpc.KindInvalid
}

// meetsSchema asks the schema of a kind. The validator bounds the numbers of a
// document and how many values it has, which the contract does not do in
// payloads; where such a bound is met, payloads are emptied first.
func meetsSchema(t tb, schemas *contracttest.Envelope, kind jsonrpc.Kind, message map[string]json.RawMessage, raw []byte) bool {
	t.Helper()
	if len(schema.Inspect(raw, schema.Bounds{})) > 0 {
		raw = emptied(t, message)
	}
	found, err := schemas.Of(kind).Validate(raw)
	if err != nil {
		t.Fatalf("validate %q: %v", raw, err)
	}
	return len(found) == 0
}

// emptied keeps what the contract speaks of, and of all else only the type.
func emptied(t tb, message map[string]json.RawMessage) []byte {
	t.Helper()
	out := map[string]json.RawMessage{}
	for name, value := range message {
		switch name {
		case "jsonrpc", "method":
			out[name] = value
		case "error":
			out[name] = emptiedError(t, value)
		default:
			out[name] = sameType(value)
		}
	}
	return marshal(t, out)
}

func emptiedError(t tb, value json.RawMessage) json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil || members == nil {
		return sameType(value)
	}
	for name, member := range members {
		if name != "code" && name != "message" {
			members[name] = sameType(member)
		}
	}
	return marshal(t, members)
}

func sameType(value json.RawMessage) json.RawMessage {
	switch value[0] {
	case '{':
		return json.RawMessage(`{}`)
	case '[':
		return json.RawMessage(`[]`)
	case '"', 't', 'f', 'n':
		return value
	}
	if bytes.ContainsAny(value, ".eE") {
		return json.RawMessage(`0.5`)
	}
	return json.RawMessage(`0`)
}

func marshal(t tb, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// isEchoable is what no schema can say about an id.
func isEchoable(id json.RawMessage) bool {
	if len(id) == 0 || id[0] == 'n' {
		return true
	}
	if id[0] == '"' {
		return len(id)-2 <= defaults.MaxIDBytes
	}
	return len(id) <= defaults.MaxIDBytes && !bytes.ContainsAny(id, ".eE")
}

// compare holds the parser to the second implementation, and what it read to
// what another decoder reads.
func compare(t tb, r *contracttest.SchemaRegistry, raw []byte) {
	t.Helper()
	m, err := r.ValidateMessageEnvelope(raw)
	got := verdict{Kind: m.Kind}
	var fault *jsonrpc.Fault
	if errors.As(err, &fault) {
		got.Refused = fault.Code
	} else if err != nil {
		t.Fatalf("%q: %T is not a *jsonrpc.Fault: %v", raw, err, err)
	}
	schemas, err := r.LoadEnvelope()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byTheBook(t, schemas, raw), got); diff != "" {
		t.Fatalf("%q: -typing rule and schema +parser:\n%s%v", raw, diff, fault)
	}
	if fault == nil {
		sameContents(t, raw, m)
	}
}

func sameContents(t tb, raw []byte, m jsonrpc.Message) {
	t.Helper()
	want := members(t, raw)
	if id, got := want["id"], m.ID.Raw(); string(id) != "null" && !bytes.Equal(id, got) || string(id) == "null" && got != nil {
		t.Fatalf("%q: id %s, want %s", raw, got, id)
	}
	if text, ok := m.ID.Text(); ok && text != decoded(t, want["id"]) {
		t.Fatalf("%q: id %q, want %s", raw, text, want["id"])
	}
	params := want["params"]
	if m.Kind != jsonrpc.KindRequest && m.Kind != jsonrpc.KindNotification {
		params = nil // an additional member like any other
	}
	if m.Method != decoded(t, want["method"]) || !sameJSON(m.Params, params) || !sameJSON(m.Result, want["result"]) {
		t.Fatalf("%q was read as %+v, want %s", raw, m, want)
	}
	if m.Kind != jsonrpc.KindError {
		return
	}
	failure := members(t, want["error"])
	code, ok := new(big.Rat).SetString(string(failure["code"]))
	if !ok || code.Cmp(new(big.Rat).SetInt64(m.Error.Code)) != 0 || m.Error.Message != decoded(t, failure["message"]) || !sameJSON(m.Error.Data, failure["data"]) {
		t.Fatalf("%q: error %+v, want %s", raw, m.Error, failure)
	}
}

// members are those of an object by their exact names, which a struct does not ask for.
func members(t tb, object []byte) map[string]json.RawMessage {
	t.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(object, &out); err != nil {
		t.Fatalf("%q: %v", object, err)
	}
	return out
}

// decoded is the value of a JSON string, "" for nil.
func decoded(t tb, raw []byte) (text string) {
	t.Helper()
	if raw == nil {
		return ""
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return text
}

func sameJSON(a, b json.RawMessage) bool {
	return (a == nil) == (b == nil) && bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
}

// nested is n arrays in each other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// envelopes are payloads of every kind, good and bad: each row of BAD_INPUT
// that concerns the envelope, and each way to break each schema.
func envelopes() []string {
	long := strings.Repeat("a", defaults.MaxIDBytes)
	digits := strings.Repeat("9", defaults.MaxIDBytes)
	const uuid = "01980f6e-7c1a-7b3e-9a51-0c6d0f6f1d2e"
	out := []string{
		// syntax
		``, ` `, `{`, `{}`, `[]`, `null`, `1`, `"{}"`, `{} {}`, "\ufeff{}", "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `[{"jsonrpc":"2.0"}]`, `{"jsonrpc":"2.0","id":"1","method":`,
		`{"jsonrpc":"2.0","id":"1","id":"1","method":"m","params":{}}`, `{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":1,"\u0061":2}}`,
		`{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":` + nested(62) + `}}`, `{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":` + nested(63) + `}}`,
		// names that fold
		`{"jsonrpc":"2.0","id":"1","Method":"m","params":{}}`, `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"param\u017f":{}}`, `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"method\u0000":1}`,
		`{"jsonrpc":"2.0","\u0130d":"1","method":"m"}`, `{"jsonrpc":"2.0","\u0131d":"1","method":"m"}`, `{"jsonrpc":"2.0","method":"m","\u200bid":"1"}`, `{"jsonrpc":"2.0","method":"m","metho\u0064s":"1","\u212aind":1}`,
		// combinations
		`{"jsonrpc":"2.0","id":"1","method":"m","params":{},"result":null}`, `{"jsonrpc":"2.0","method":"m","error":null}`, `{"jsonrpc":"2.0","id":"1","result":{},"error":{"code":1,"message":""}}`, `{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","id":"1"}`, `{"jsonrpc":"2.0"}`,
		// numbers
		`{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":1e999,"b":1e1000001,"c":` + strings.Repeat("9", 2000) + `}}`, `{"jsonrpc":"2.0","id":"1","result":1e99999}`, `{"jsonrpc":"2.0","id":"1","result":1,"x":1e99999}`,
		`{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"","data":1e99999,"x":-1e99999},"y":1e99999}`,
	}
	for _, id := range []string{
		`"1"`, `""`, `"\u0031"`, `1`, `0`, `-0`, `-7`, `1.0`, `1.5`, `1e3`, `9007199254740993`, `null`, `true`, `{}`, `["1"]`, `1e99999`,
		`"` + uuid + `"`, `"` + strings.ToUpper(uuid) + `"`, `"\u0030` + uuid[1:] + `"`, `"` + uuid + `0"`, `"` + uuid[1:] + `"`, `"g` + uuid[1:] + `"`, `"` + strings.ReplaceAll(uuid, "-", "0") + `"`,
		`"` + long + `"`, `"` + long + `a"`, `"\u0061` + long[6:] + `"`, `"\u0061` + long + `"`, digits, digits + "9",
	} {
		out = append(out,
			`{"jsonrpc":"2.0","id":`+id+`,"method":"m","params":{}}`, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`,
			`{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,"message":"no"}}`,
		)
	}
	for _, version := range []string{``, `"jsonrpc":"1.0",`, `"jsonrpc":2.0,`, `"jsonrpc":null,`, `"jsonrpc":"2\u002e0",`, `"jsonrpc":["2.0"],`} {
		out = append(out, `{`+version+`"id":"1","method":"m","params":{}}`, `{`+version+`"method":"m"}`, `{`+version+`"id":"1","result":1}`, `{`+version+`"error":{"code":1,"message":""}}`)
	}
	for _, method := range []string{`""`, `null`, `1`, `"\u0000"`, `"tools/call"`, `["m"]`, `{}`} {
		out = append(out, `{"jsonrpc":"2.0","id":"1","method":`+method+`,"params":{}}`, `{"jsonrpc":"2.0","method":`+method+`}`)
	}
	for _, params := range []string{``, `,"params":null`, `,"params":[]`, `,"params":"{}"`, `,"params":1`, `,"params":{"a":null}`, `,"params":{},"x":1`} {
		out = append(out, `{"jsonrpc":"2.0","id":"1","method":"m"`+params+`}`, `{"jsonrpc":"2.0","method":"m"`+params+`}`)
	}
	for _, result := range []string{`null`, `1`, `"a"`, `[]`, `{}`, `false`} {
		out = append(out, `{"jsonrpc":"2.0","id":"1","result":`+result+`}`, `{"jsonrpc":"2.0","id":null,"result":`+result+`}`)
	}
	for _, failure := range []string{`null`, `[]`, `"no"`, `{}`, `{"code":1}`, `{"message":"no"}`, `{"code":1,"message":null}`, `{"code":"1","message":"no"}`, `{"code":1,"message":"no","data":null,"x":2}`} {
		out = append(out, `{"jsonrpc":"2.0","error":`+failure+`}`)
	}
	for _, code := range []string{
		`0`, `-0`, `0.0`, `-0.0e5`, `1.0`, `1.00`, `1e0`, `1e2`, `1E+2`, `100e-2`, `1e-1`, `10e-1`, `1.5`, `-3.26e4`, `0.00001e5`, `12.50e1`,
		`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `9223372036854775807.0`, `0.9223372036854775807e19`, `9.3e18`, `92233720368547758070e-1`,
		`1e19`, `1e400`, `1e2000`, `0e2000`, `0e2001`, `0e-2001`, `0e99999999999999999999`, `1e-2000`, `1.` + strings.Repeat("0", 1022), `1.` + strings.Repeat("0", 1023), strings.Repeat("9", 400), `true`, `[1]`,
	} {
		out = append(out, `{"jsonrpc":"2.0","id":"1","error":{"code":`+code+`,"message":"no"}}`)
	}
	return out
}

// goldens are the messages of the golden conversations.
func goldens(t tb) []string {
	t.Helper()
	files, err := filepath.Glob("../../internal/dialect/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	var out []string
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			body := string(f.Data)
			if strings.HasSuffix(f.Name, ".want") { // the HTTP status is in the first line
				_, body, _ = strings.Cut(body, "\n")
			} else if _, after, ok := strings.Cut(body, "\n\n"); ok { // after headers
				body = after
			}
			out = append(out, strings.TrimSpace(body))
		}
	}
	return out
}

// TestEnvelopeAgainstSchema compares the parser with typing rule and schema on
// every payload of the tables and of the golden conversations, in every profile.
func TestEnvelopeAgainstSchema(t *testing.T) {
	t.Parallel()
	payloads := append(envelopes(), goldens(t)...)
	for _, p := range canonicalProfiles {
		r := contracttest.New(nil, contracttest.Options{Envelope: p})
		kinds := map[jsonrpc.Kind]int{}
		for _, raw := range payloads {
			compare(t, r, []byte(raw))
			if m, err := r.ValidateMessageEnvelope([]byte(raw)); err == nil {
				kinds[m.Kind]++
			}
		}
		if len(kinds) != 4 {
			t.Errorf("profile %d: the payloads cover only %v", p, kinds)
		}
	}
}

// FuzzEnvelopeAgainstSchema is the same for random payloads.
func FuzzEnvelopeAgainstSchema(f *testing.F) {
	for _, raw := range append(envelopes(), goldens(f)...) {
		f.Add([]byte(raw))
	}
	var registries []*contracttest.SchemaRegistry
	for _, p := range canonicalProfiles {
		registries = append(registries, contracttest.New(nil, contracttest.Options{Envelope: p}))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, r := range registries {
			compare(t, r, raw)
		}
	})
}
