// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"a.b","arguments":{"n":18446744073709551615}}}`,
	`{"jsonrpc":"2.0","id":9223372036854775807,"result":{"a":[1.5e-3,true,false,null,""]}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":[]}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
	`{"jsonrpc":"2.0","id":"1","method":"m","param\u017f":{}}`, `{"method\u0000":1,"Method":2}`,
	`{"id":"1","\u0069d":"2"}`, `{"a":"\ud83d\ude00","b":"\ud83d"}`, "\ufeff{}", "{\"a\":\"\xff\"}", `[{},{"jsonrpc":"2.0"}]`, `{} {}`, `[`, `"`, `-`, `-0`, `01`, `1e1000001`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"\u0061":15}`,
	strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
}

// FuzzParse: no input panics, every profile agrees with the syntax check, and what
// was accepted can be taken apart and put together.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fault := Check(raw, Limits{})
		if fault == nil {
			sameParams(t, raw)
		}
		for _, p := range []Profile{ProfileCanonical, ProfileCanonicalAnyID, ProfileMCP} {
			checkMessage(t, raw, fault, Parse(raw, p, Limits{}))
		}
	})
}

// checkMessage checks what holds for every message.
func checkMessage(t *testing.T, raw []byte, syntax *Fault, m Message) {
	t.Helper()
	if (syntax != nil) != (m.Fault != nil && m.Fault.Code == FaultParse) {
		t.Fatalf("Check says %v, Parse %v", syntax, m.Fault)
	}
	if m.Fault != nil {
		checkReason(t, m.Fault)
		if len(m.Fault.Path) > 256 || !utf8.ValidString(m.Fault.Path) {
			t.Fatalf("path %q", m.Fault.Path)
		}
		return
	}
	var back []byte
	method := jsontext.AppendString(nil, m.Method)
	params := jsontext.Compact(nil, []byte(cmp.Or(string(m.Params), "{}")))
	switch m.Kind {
	case KindRequest:
		back = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, m.ID, method, params)
	case KindNotification:
		back = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%s,"params":%s}`, method, params)
	case KindSuccess:
		back = AppendResult(nil, m.ID, m.Result)
	case KindError:
		back = AppendError(nil, m.ID, true, int(m.Error.Code), m.Error.Message, m.Error.Data)
	default:
		t.Fatalf("neither kind nor fault: %q", raw)
	}
	again := Parse(back, ProfileCanonicalAnyID, Limits{MaxBytes: 2 * defaults.MaxMessageBytes})
	if again.Fault != nil || again.Kind != m.Kind || again.ID != m.ID || again.Method != m.Method {
		t.Fatalf("%s came back as %s: %+v", raw, back, again)
	}
	if bytes.ContainsAny(back, "\n\r") {
		t.Fatalf("%q holds a line break", back)
	}
}

// FuzzID: an id comes back as it came, and equals what has the same value.
func FuzzID(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\u0061"`, `7`, `-0`, `9007199254740993`, `1.0`, `null`, `"\ud83d\ude00"`, ` "x" `, `""`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		id, err := ParseID(raw)
		if err != nil {
			if !id.IsZero() {
				t.Fatalf("%q: %v, and yet an id", raw, err)
			}
			return
		}
		if want := bytes.TrimSpace(raw); !bytes.Equal(id.Raw(), want) {
			t.Fatalf("echo of %q is %q", want, id.Raw())
		}
		m := Parse(AppendResult(nil, id, []byte(`{}`)), ProfileMCP, Limits{})
		if m.Fault != nil || m.ID != id {
			t.Fatalf("%q came back as %q: %v", id, m.ID, m.Fault)
		}
		var same ID
		if text, ok := id.Text(); ok {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil || text != want {
				t.Fatalf("Text of %q is %q, want %q", raw, text, want)
			}
			same = StringID(text)
		} else if n, ok := id.Int64(); ok {
			same = IntID(n)
		} else {
			return
		}
		if !same.Equal(id) {
			t.Fatalf("%q is not equal to %q", same, id)
		}
	})
}
