// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// nested is n arrays in each other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestSyntaxFaults has one row for each way in which bytes fail to be JSON
// that all readers agree on. Each is refused wherever it is.
func TestSyntaxFaults(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, path string }{
		{"empty", ``, ""},
		{"only space", " \n\t ", ""},
		{"truncated object", `{"jsonrpc":"2.0","id":"1","method":`, "/method"},
		{"truncated string", `{"jsonrpc":"2.0","id":"1","method":"p`, "/method"},
		{"truncated escape", `{"a":"\`, "/a"},
		{"truncated unicode escape", `{"a":"\u00`, "/a"},
		{"truncated literal", `{"a":tru`, "/a"},
		{"truncated number", `{"a":-`, "/a"},
		{"truncated fraction", `{"a":1.}`, "/a"},
		{"truncated exponent", `{"a":1e+}`, "/a"},
		{"unclosed object", `{"a":1`, ""},
		{"unclosed array", `{"a":[1`, "/a"},
		{"unopened object", `}`, ""},
		{"wrong bracket", `{"a":[1}}`, "/a"},
		{"trailing comma in object", `{"a":1,}`, ""},
		{"trailing comma in array", `{"a":[1,]}`, "/a/1"},
		{"missing colon", `{"a" 1}`, ""},
		{"missing comma", `{"a":1 "b":2}`, ""},
		{"name without quotes", `{a:1}`, ""},
		{"single quotes", `{'a':1}`, ""},
		{"comment", `{"a":1/**/}`, ""},
		{"NaN", `{"a":NaN}`, "/a"},
		{"capital literal", `{"a":True}`, "/a"},
		{"leading zero", `{"a":01}`, "/a"},
		{"leading plus", `{"a":+1}`, "/a"},
		{"leading point", `{"a":.5}`, "/a"},
		{"hexadecimal", `{"a":0x10}`, ""},
		{"byte order mark", "\ufeff{}", ""},
		{"UTF-16", "\xff\xfe{\x00}\x00", ""},
		{"invalid UTF-8 in a value", "{\"a\":\"\xff\"}", "/a"},
		{"invalid UTF-8 in a name", "{\"\xc3\x28\":1}", ""},
		{"overlong UTF-8", "{\"a\":\"\xc0\x80\"}", "/a"},
		{"surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", "/a"},
		{"truncated UTF-8 after plain text", "{\"a\":\"0123456789\xe2\x82\"}", "/a"},
		{"raw control character", "{\"a\":\"\n\"}", "/a"},
		{"raw NUL", "{\"a\":\"\x00\"}", "/a"},
		{"vertical tab as space", "{\v\"a\":1}", ""},
		{"unknown escape", `{"a":"\x41"}`, "/a"},
		{"bad unicode escape", `{"a":"\u00g0"}`, "/a"},
		{"lone high surrogate", `{"a":"\ud83d"}`, "/a"},
		{"lone low surrogate", `{"a":"\ude00"}`, "/a"},
		{"high surrogate twice", `{"a":"\ud83d\ud83d"}`, "/a"},
		{"surrogates in wrong order", `{"a":"\ude00\ud83d"}`, "/a"},
		{"lone surrogate in a name", `{"\ud800":1}`, ""},
		{"lone surrogate in raw params", `{"params":{"a":[{"b":"\udfff"}]}}`, "/params/a/0/b"},
		{"trailing value", `{} {}`, ""},
		{"trailing text", `{}x`, ""},
		{"trailing NUL", "{}\x00", ""},
		{"duplicate name", `{"a":1,"a":1}`, "/a"},
		{"duplicate id", `{"id":"1","id":"2"}`, "/id"},
		{"duplicate name in escaped form", `{"method":"a","m\u0065thod":"b"}`, "/method"},
		{"duplicate name with both escaped", `{"\u0061":1,"\u0061":2}`, "/a"},
		{"duplicate pair of surrogates", `{"😀":1,"\ud83d\ude00":2}`, "/😀"},
		{"duplicate empty name", `{"":1,"":2}`, "/"},
		{"duplicate name in raw params", `{"params":{"arguments":{"x":1,"y":{},"x":2}}}`, "/params/arguments/x"},
		{"duplicate name in an array", `[0,[{"a~/b":1,"a~/b":2}]]`, "/1/0/a~0~1b"},
		{"duplicate name after a nested one", `{"a":{"b":{"c":1}},"a":1}`, "/a"},
		{"nesting over 64", nested(65), "/0" + strings.Repeat("/0", 63)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range []Profile{ProfileCanonical, ProfileCanonicalAnyID, ProfileMCP} {
				m := Parse([]byte(test.raw), p, Limits{})
				if m.Fault == nil || m.Fault.Code != FaultParse {
					t.Fatalf("Fault = %v, want a parse fault", m.Fault)
				}
				if m.Fault.Path != test.path {
					t.Errorf("Path = %q, want %q (%s)", m.Fault.Path, test.path, m.Fault.Reason)
				}
				if !m.ID.IsZero() || m.Kind != KindInvalid {
					t.Errorf("ID %q, Kind %v: nothing may be read from half a document", m.ID, m.Kind)
				}
				checkReason(t, m.Fault)
			}
			if f := Check([]byte(`{"params":`+test.raw+`}`), Limits{MaxDepth: 65}); test.name != "nesting over 64" && f == nil {
				t.Error("accepted as raw params")
			}
		})
	}
}

func checkReason(t *testing.T, f *Fault) {
	t.Helper()
	if len(f.Reason) < 10 || len(f.Reason) > 120 || !strings.HasSuffix(f.Reason, ".") {
		t.Errorf("Reason is no short sentence: %q", f.Reason)
	}
	for _, r := range f.Reason {
		if r < ' ' || r > '~' {
			t.Errorf("Reason holds %q: %q", r, f.Reason)
		}
	}
}

// TestSyntaxAccepted guards against refusing what is right.
func TestSyntaxAccepted(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		` {} `, "\r\n\t[ ]\n", `0`, `-0`, `-0.0e-0`, `1E+5`, `"\u0000"`, `"\ud83d\ude00"`, `"😀"`, "\"\x7f\u2028\"",
		`"\ufeff"`, `"` + "\ufeff" + `"`, `{"a":1,"A":1,"a\u0000":1}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`, `true`, `null`,
		`"\ufffd` + "\ufffd" + `"`, nested(64), `[{"a":1},{"a":1}]`, `1e1000001`, strings.Repeat("9", 100000), `"\/\b\f\n\r\t\"\\"`,
	} {
		if f := Check([]byte(raw), Limits{}); f != nil {
			t.Errorf("%.40q: %v", raw, f)
		}
	}
}

// TestEnvelopes walks the typing rule and the rules of the profiles. The three
// columns are what each profile makes of the message: the kind and, after a
// slash, the path of the fault; "" means no fault.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	const bad = "invalid/"
	all := func(s string) [3]string { return [3]string{s, s, s} }
	tests := []struct {
		name, raw string
		id        string
		want      [3]string // canonical, canonical with any id, MCP
	}{
		{"request", `{"jsonrpc":"2.0","id":"1","method":"m","params":{}}`, `"1"`, all("request")},
		{"request, other order and space", "\n{ \"params\" : { } , \"method\":\"m\",\"id\" :\"1\" ,\"jsonrpc\":\"2.0\" }\n", `"1"`, all("request")},
		{"request, escaped names and values", `{"\u006asonrpc":"2\u002e0","i\u0064":"1","method":"\u006d","params":{}}`, `"1"`, all("request")},
		{"request, further members", `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"x":1,"idx":2,"":3}`, `"1"`, all("request")},
		{"request, integer id", `{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `1`, [3]string{"request/id", "request", "request"}},
		{"request, zero id", `{"jsonrpc":"2.0","id":0,"method":"m","params":{}}`, `0`, [3]string{"request/id", "request", "request"}},
		{"request, empty id", `{"jsonrpc":"2.0","id":"","method":"m","params":{}}`, `""`, all("request")},
		{"request, null id", `{"jsonrpc":"2.0","id":null,"method":"m","params":{}}`, ``, all("invalid/id")},
		{"request, bool id", `{"jsonrpc":"2.0","id":true,"method":"m","params":{}}`, ``, all("request/id")},
		{"request, object id", `{"jsonrpc":"2.0","id":{},"method":"m","params":{}}`, ``, all("request/id")},
		{"request, array id", `{"jsonrpc":"2.0","id":["1"],"method":"m","params":{}}`, ``, all("request/id")},
		{"request, fraction id", `{"jsonrpc":"2.0","id":1.5,"method":"m","params":{}}`, ``, all("request/id")},
		{"request, whole fraction id", `{"jsonrpc":"2.0","id":1.0,"method":"m","params":{}}`, ``, all("request/id")},
		{"request, exponent id", `{"jsonrpc":"2.0","id":1e3,"method":"m","params":{}}`, ``, all("request/id")},
		{"request, no params", `{"jsonrpc":"2.0","id":"1","method":"m"}`, `"1"`, [3]string{"request/", "request/", "request"}},
		{"request, null params", `{"jsonrpc":"2.0","id":"1","method":"m","params":null}`, `"1"`, all("request/params")},
		{"request, array params", `{"jsonrpc":"2.0","id":"1","method":"m","params":[]}`, `"1"`, all("request/params")},
		{"request, string params", `{"jsonrpc":"2.0","id":"1","method":"m","params":"{}"}`, `"1"`, all("request/params")},
		{"request, empty method", `{"jsonrpc":"2.0","id":"1","method":"","params":{}}`, `"1"`, all("request/method")},
		{"request, null method", `{"jsonrpc":"2.0","id":"1","method":null,"params":{}}`, `"1"`, all("request/method")},
		{"request, number method", `{"jsonrpc":"2.0","id":"1","method":1,"params":{}}`, `"1"`, all("request/method")},
		{"missing jsonrpc", `{"id":"1","method":"m","params":{}}`, `"1"`, all("request/")},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":"1","method":"m","params":{}}`, `"1"`, all("request/jsonrpc")},
		{"jsonrpc number", `{"jsonrpc":2.0,"id":"1","method":"m","params":{}}`, `"1"`, all("request/jsonrpc")},
		{"jsonrpc null", `{"jsonrpc":null,"id":"1","method":"m","params":{}}`, `"1"`, all("request/jsonrpc")},
		{"jsonrpc with space", `{"jsonrpc":"2.0 ","id":"1","method":"m","params":{}}`, `"1"`, all("request/jsonrpc")},

		{"notification", `{"jsonrpc":"2.0","method":"m"}`, ``, all("notification")},
		{"notification with params", `{"jsonrpc":"2.0","method":"m","params":{"a":1}}`, ``, all("notification")},
		{"notification, null params", `{"jsonrpc":"2.0","method":"m","params":null}`, ``, all("notification/params")},
		{"notification, empty method", `{"jsonrpc":"2.0","method":""}`, ``, all("notification/method")},

		{"success", `{"jsonrpc":"2.0","id":"1","result":{}}`, `"1"`, all("success response")},
		{"success, null result", `{"jsonrpc":"2.0","id":"1","result":null}`, `"1"`, [3]string{"success response", "success response", "success response/result"}},
		{"success, integer id", `{"jsonrpc":"2.0","id":7,"result":{}}`, `7`, [3]string{"success response/id", "success response", "success response"}},
		{"success, null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, ``, all("success response/id")},
		{"success without id", `{"jsonrpc":"2.0","result":{}}`, ``, all(bad)},

		{"error", `{"jsonrpc":"2.0","id":"1","error":{"code":-32600,"message":"no","data":[1]}}`, `"1"`, all("error response")},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":0,"message":""}}`, ``, all("error response")},
		{"error, null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, ``, [3]string{"error response", "error response", "error response/id"}},
		{"error, null", `{"jsonrpc":"2.0","id":"1","error":null}`, `"1"`, all("error response/error")},
		{"error, no code", `{"jsonrpc":"2.0","id":"1","error":{"message":"m"}}`, `"1"`, all("error response/error/code")},
		{"error, string code", `{"jsonrpc":"2.0","id":"1","error":{"code":"1","message":"m"}}`, `"1"`, all("error response/error/code")},
		{"error, fraction code", `{"jsonrpc":"2.0","id":"1","error":{"code":1.5,"message":"m"}}`, `"1"`, all("error response/error/code")},
		{"error, huge code", `{"jsonrpc":"2.0","id":"1","error":{"code":9223372036854775808,"message":"m"}}`, `"1"`, all("error response/error/code")},
		{"error, no message", `{"jsonrpc":"2.0","id":"1","error":{"code":1}}`, `"1"`, all("error response/error/message")},

		{"method and result", `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"result":{}}`, `"1"`, all(bad)},
		{"method and null result", `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"result":null}`, `"1"`, all(bad)},
		{"method and error", `{"jsonrpc":"2.0","id":"1","method":"m","error":{"code":1,"message":"m"}}`, `"1"`, all(bad)},
		{"result and error", `{"jsonrpc":"2.0","id":"1","result":{},"error":{"code":1,"message":"m"}}`, `"1"`, all(bad)},
		{"result and null error", `{"jsonrpc":"2.0","id":"1","result":{},"error":null}`, `"1"`, all(bad)},
		{"only an id", `{"jsonrpc":"2.0","id":"1"}`, `"1"`, all(bad)},
		{"empty object", `{}`, ``, all(bad)},
		{"array", `[{"jsonrpc":"2.0","id":"1","method":"m","params":{}}]`, ``, all(bad)},
		{"string", `"{}"`, ``, all(bad)},
		{"null", `null`, ``, all(bad)},

		{"Method", `{"jsonrpc":"2.0","id":"1","Method":"m","params":{}}`, `"1"`, all("invalid/Method")},
		{"METHOD beside method", `{"jsonrpc":"2.0","id":"1","METHOD":"m","method":"m","params":{}}`, `"1"`, all("invalid/METHOD")},
		{"long s", `{"jsonrpc":"2.0","id":"1","method":"m","param\u017f":{}}`, `"1"`, all("invalid/paramſ")},
		{"long s, raw", `{"jsonrpc":"2.0","id":"1","method":"m","params":{},"paramſ":{}}`, `"1"`, all("invalid/paramſ")},
		{"NUL after method", `{"jsonrpc":"2.0","id":"1","method\u0000":"m","params":{}}`, `"1"`, all("invalid/method\x00")},
		{"zero-width space in id", `{"jsonrpc":"2.0","i` + "\u200b" + `d":"1","method":"m"}`, ``, all("invalid/i\u200bd")},
		{"dotted capital I", `{"jsonrpc":"2.0","İd":"1","method":"m"}`, ``, all("invalid/İd")},
		{"dotless i", `{"jsonrpc":"2.0","ıd":"1","method":"m"}`, ``, all("invalid/ıd")},
		{"ID beside id", `{"jsonrpc":"2.0","id":"1","ID":"2","method":"m","params":{}}`, `"1"`, all("invalid/ID")},
		{"Result", `{"jsonrpc":"2.0","id":"1","Result":{}}`, `"1"`, all("invalid/Result")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got [3]string
			for i, p := range []Profile{ProfileCanonical, ProfileCanonicalAnyID, ProfileMCP} {
				m := Parse([]byte(test.raw), p, Limits{})
				got[i] = [...]string{"invalid", "request", "notification", "success response", "error response"}[m.Kind]
				if m.Fault != nil {
					if m.Fault.Code != FaultEnvelope {
						t.Fatalf("Fault = %v, want an envelope fault", m.Fault)
					}
					if got[i] += m.Fault.Path; m.Fault.Path == "" {
						got[i] += "/"
					}
					checkReason(t, m.Fault)
				}
				if m.ID.String() != test.id {
					t.Errorf("profile %d: ID = %q, want %q", p, m.ID, test.id)
				}
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(Message{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMessageContents(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"jsonrpc":"2.0","id":"\u0061","method":"tools\/call","params": {"name" : "x"} }`)
	m := Parse(raw, ProfileCanonical, Limits{})
	want := Message{Kind: KindRequest, ID: StringID("a"), Method: "tools/call", Params: []byte(`{"name" : "x"}`)}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Message{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if &m.Params[0] != &raw[strings.Index(string(raw), `{"name"`)] {
		t.Error("Params is a copy")
	}
	if cap(m.Params) != len(m.Params) {
		t.Error("appending to Params would write into the input")
	}
	m = Parse([]byte(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"caf\u00e9","data":{"a":null}},"id":7}`), ProfileMCP, Limits{})
	want = Message{Kind: KindError, ID: IntID(7), Error: &ErrorObject{Code: -32601, Message: "café", Data: []byte(`{"a":null}`)}}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreUnexported(Message{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestReadOnce is the way of an edge that must look into a message to know its
// dialect.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	e := Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"v":"x"}}}`), Limits{})
	meta, _ := jsontext.Lookup(e.Params(), "_meta")
	if v, _ := jsontext.Lookup(meta, "v"); string(v) != `"x"` || e.Method() != "m" {
		t.Errorf("v = %s, method %q", v, e.Method())
	}
	if f := e.As(ProfileMCP).Fault; f != nil {
		t.Errorf("MCP: %v", f)
	}
	if f := e.As(ProfileCanonical).Fault; f == nil {
		t.Error("canonical: an integer id was accepted")
	}
	broken := Read([]byte(`{"params":{},"method":"m"`), Limits{})
	if broken.Params() != nil || broken.Method() != "" {
		t.Error("something was read from half a document")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	request := func(id, params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m","params":` + params + `}`)
	}
	ok := request(`"1"`, `{}`)
	text := strings.Repeat("a", 1024)
	tests := []struct {
		name   string
		raw    []byte
		limits Limits
		code   FaultCode
	}{
		{"size, at the limit", ok, Limits{MaxBytes: len(ok)}, 0},
		{"size, over it", ok, Limits{MaxBytes: len(ok) - 1}, FaultTooLarge},
		{"default size, at the limit", request(`"1"`, `{"a":"`+strings.Repeat("x", defaults.MaxMessageBytes-len(ok)-6)+`"}`), Limits{}, 0},
		{"default size, over it", request(`"1"`, `{"a":"`+strings.Repeat("x", defaults.MaxMessageBytes-len(ok)-5)+`"}`), Limits{}, FaultTooLarge},
		{"depth, at the limit", request(`"1"`, `{"a":`+nested(62)+`}`), Limits{}, 0},
		{"depth, over it", request(`"1"`, `{"a":`+nested(63)+`}`), Limits{}, FaultParse},
		{"depth, set", request(`"1"`, `{}`), Limits{MaxDepth: 1}, FaultParse},
		{"depth, capped", []byte(nested(capDepth + 1)), Limits{MaxDepth: 1 << 30}, FaultParse},
		{"string id, at the limit", request(`"`+text+`"`, `{}`), Limits{}, 0},
		{"string id, over it", request(`"`+text+`a"`, `{}`), Limits{}, FaultEnvelope},
		{"integer id, at the limit", request(strings.Repeat("1", 1024), `{}`), Limits{}, 0},
		{"integer id, over it", request(strings.Repeat("1", 1025), `{}`), Limits{}, FaultEnvelope},
		{"id of 1 MB", request(`"`+strings.Repeat("a", 1<<20)+`"`, `{}`), Limits{}, FaultEnvelope},
		{"id limit, set", request(`"abc"`, `{}`), Limits{MaxIDBytes: 2}, FaultEnvelope},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := Parse(test.raw, ProfileMCP, test.limits)
			switch {
			case test.code == 0 && m.Fault != nil:
				t.Errorf("refused: %v", m.Fault)
			case test.code != 0 && (m.Fault == nil || m.Fault.Code != test.code):
				t.Errorf("Fault = %v, want %v", m.Fault, test.code)
			case test.code != 0 && !m.ID.IsZero():
				t.Errorf("ID of %d bytes kept", len(m.ID.Raw()))
			}
		})
	}
}

// TestManyNames crosses from comparing to hashing and back, and finds a
// duplicate at any distance.
func TestManyNames(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 12, 12 + 1, 12 + 2, 31, 32, 33, 64, 65, 1000, 20000} {
		var b strings.Builder
		b.WriteString(`[{`)
		for i := range count {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"n` + strconv.Itoa(i) + `":{"n0":1,"\u006e1":2}`)
		}
		good := b.String()
		if f := Check([]byte(good+`}]`), Limits{}); f != nil {
			t.Fatalf("%d names: %v", count, f)
		}
		for _, again := range []int{0, count / 2, count - 1} {
			for _, spelling := range []string{`"n`, `"\u006e`} {
				bad := good + `,` + spelling + strconv.Itoa(again) + `":0}]`
				if f := Check([]byte(bad), Limits{}); f == nil || f.Path != "/0/n"+strconv.Itoa(again) {
					t.Errorf("%d names, number %d again: %v", count, again, f)
				}
			}
		}
	}
}

func TestPathBound(t *testing.T) {
	t.Parallel()
	for _, length := range []int{256 - 1, 256, 1 << 20} {
		m := Parse([]byte(`{"a":{"`+strings.Repeat("n", length)+`":x}}`), ProfileCanonical, Limits{})
		if m.Fault == nil || m.Fault.Path != "" {
			t.Errorf("name of %d bytes: %d bytes of path", length, len(m.Fault.Path))
		}
	}
	if f := Check([]byte(`{"`+strings.Repeat("n", 256-1)+`":x}`), Limits{}); len(f.Path) != 256 {
		t.Errorf("%d bytes of path, want %d", len(f.Path), 256)
	}
}
