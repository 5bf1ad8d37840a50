// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// accepts is a second opinion on Check: another implementation, with its
// strict defaults and the depth limit on top.
func accepts(raw []byte, maxDepth int) bool {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for values := 0; ; {
		_, err := decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && decoder.StackDepth() == 0:
			return values == 1
		case err != nil || decoder.StackDepth() > maxDepth:
			return false
		}
		if decoder.StackDepth() == 0 {
			values++
		}
	}
}

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

// FuzzParse: no input panics, the syntax check agrees with another
// implementation, and what was accepted can be taken apart and put together.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fault := Check(raw, Limits{})
		if want := accepts(raw, DefaultMaxDepth); want != (fault == nil) {
			t.Fatalf("Check says %v, the other implementation accepts: %v", fault, want)
		}
		if fault == nil {
			sameParams(t, raw)
		}
		for _, p := range []Profile{ProfileCanonical, ProfileCanonicalAnyID, ProfileMCP} {
			checkMessage(t, raw, fault, Parse(raw, p, Limits{}))
		}
		if fault == nil {
			checkReaders(t, raw)
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
		if len(m.Fault.Path) > maxPathBytes || !utf8.ValidString(m.Fault.Path) {
			t.Fatalf("path %q", m.Fault.Path)
		}
		return
	}
	var back []byte
	switch m.Kind {
	case KindRequest:
		back = AppendRequest(nil, m.ID, m.Method, m.Params)
	case KindNotification:
		back = AppendNotification(nil, m.Method, m.Params)
	case KindSuccess:
		back = AppendResult(nil, m.ID, m.Result)
	case KindError:
		back = AppendError(nil, m.ID, true, int(m.Error.Code), m.Error.Message, m.Error.Data)
	default:
		t.Fatalf("neither kind nor fault: %q", raw)
	}
	again := Parse(back, ProfileCanonicalAnyID, Limits{MaxBytes: 2 * DefaultMaxBytes})
	if again.Fault != nil || again.Kind != m.Kind || again.ID != m.ID || again.Method != m.Method {
		t.Fatalf("%s came back as %s: %+v", raw, back, again)
	}
	if bytes.ContainsAny(back, "\n\r") {
		t.Fatalf("%q holds a line break", back)
	}
}

// checkReaders compares the readers of checked values with the standard library.
func checkReaders(t *testing.T, raw []byte) {
	t.Helper()
	var want bytes.Buffer
	if err := json.Compact(&want, raw); err != nil {
		t.Fatal(err)
	}
	if got := Compact(nil, raw); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("Compact(%q) = %q, want %q", raw, got, want.Bytes())
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		count := 0
		for name, value := range Members(raw) {
			count++
			found, ok := Lookup(raw, name)
			if !ok || !bytes.Equal(found, value) || !bytes.Equal(object[name], value) {
				t.Fatalf("%q of %q: Members %q, Lookup %q, want %q", name, raw, value, found, object[name])
			}
		}
		if count != len(object) {
			t.Fatalf("%d members of %q, want %d", count, raw, len(object))
		}
	}
	var array []json.RawMessage
	if json.Unmarshal(raw, &array) == nil {
		count := 0
		for value := range Elements(raw) {
			if !bytes.Equal(array[count], value) {
				t.Fatalf("element %d of %q: %q, want %q", count, raw, value, array[count])
			}
			count++
		}
		if count != len(array) {
			t.Fatalf("%d elements of %q, want %d", count, raw, len(array))
		}
	}
	var text string
	if got, ok := Text(bytes.TrimSpace(raw)); ok {
		if err := json.Unmarshal(raw, &text); err != nil || text != got {
			t.Fatalf("Text(%q) = %q, want %q", raw, got, text)
		}
	}
}

// FuzzUnchecked: the readers of checked values stay within any bytes.
func FuzzUnchecked(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), "a")
	}
	f.Add([]byte(`{"a`), "a")
	f.Add([]byte(`{"a":"\u`), "a")
	f.Add([]byte(`[}],{`), "")
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		Lookup(raw, name)
		Text(raw)
		Int64(raw)
		size := 0
		for _, value := range Members(raw) {
			size += len(value)
		}
		for value := range Elements(raw) {
			size += len(value)
		}
		if size > 2*len(raw) || len(Compact(nil, raw)) > len(raw) {
			t.Fatalf("more came out of %q than went in", raw)
		}
	})
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
