// SPDX-License-Identifier: Apache-2.0

package jsontext

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
	`{"id":"1","\u0069d":"2"}`, `{"a":"\ud83d\ude00","b":"\ud83d"}`, "\ufeff{}", "", " ", "{\"a\":\"\xff\"}", `[{},{"jsonrpc":"2.0"}]`, `{} {}`, `[`, `"`, `-`, `-0`, `01`, `1e1000001`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"\u0061":15}`,
	strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
}

const fuzzDepth = 64

// FuzzCheck: no input panics, the grammar is that of another implementation, and
// whatever reads a text that was accepted reads the same.
func FuzzCheck(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fault := Check(raw, fuzzDepth)
		if want := accepts(raw, fuzzDepth); want != (fault == nil) {
			t.Fatalf("Check says %v, the other implementation accepts: %v", fault, want)
		}
		checkWalks(t, raw, fault)
		if fault != nil {
			checkError(t, raw, fault)
			return
		}
		checkReaders(t, raw)
	})
}

// checkError checks what holds for every error.
func checkError(t *testing.T, raw []byte, e *Error) {
	t.Helper()
	if e.Kind == 0 || e.Reason == "" || e.Start < 0 || e.Start > e.Pos || e.Pos > len(raw) {
		t.Fatalf("%+v for %q", e, raw)
	}
	if len(e.Path) > maxPathBytes || !utf8.ValidString(e.Path) {
		t.Fatalf("path %q", e.Path)
	}
}

// follower is a Visitor that stops at a repeated name, as Check does.
type follower struct {
	values, ends int
	repeated     bool
}

func (v *follower) Value(int) bool { v.values++; return true }

func (v *follower) Name(_ int, _ []byte, repeated bool) bool {
	v.repeated = repeated
	return !repeated
}

func (v *follower) End(int, int) bool { v.ends++; return true }

// checkWalks compares Walk and Outline with Check.
func checkWalks(t *testing.T, raw []byte, want *Error) {
	t.Helper()
	var v follower
	got := Walk(raw, fuzzDepth, &v)
	switch {
	case (got == nil) != (want == nil):
		t.Fatalf("Check says %v, Walk %v", want, got)
	case want != nil && want.Kind != got.Kind && !(want.Kind == Repeated && got.Kind == VisitorStopped && v.repeated):
		t.Fatalf("Check says %+v, Walk %+v", want, got)
	case v.ends > v.values:
		t.Fatalf("%d ends of %d values", v.ends, v.values)
	}
	noted, e := Outline(raw, fuzzDepth, "a")
	if (e == nil) != (want == nil) || e != nil && *e != *want {
		t.Fatalf("Check says %+v, Outline %+v", want, e)
	}
	if want != nil {
		return
	}
	if !bytes.Equal(raw[noted.Start:noted.End], bytes.Trim(raw, " \t\r\n")) {
		t.Fatalf("the value of %q is %q", raw, raw[noted.Start:noted.End])
	}
	sameFields(t, raw[noted.Start:noted.End], &noted.Whole)
	inner, _ := Lookup(raw, "a")
	sameFields(t, inner, &noted.Inner)
}

// sameFields compares an index with the bytes that it was made of.
func sameFields(t *testing.T, object []byte, x *Index) {
	t.Helper()
	var want, got []string
	for name, value := range Fields(object) {
		want = append(want, string(name)+"="+string(value))
		if found, ok := x.Lookup(object, string(name)); !ok || !bytes.Equal(found, value) {
			t.Fatalf("%q of %q is %q, want %q", name, object, found, value)
		}
	}
	for name, value := range x.Fields(object) {
		got = append(got, string(name)+"="+string(value))
	}
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		t.Fatalf("%q: the index has %q, want %q", object, got, want)
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
		IsCompact(raw)
		Trim(raw)
		AppendDecoded(nil, raw)
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

// FuzzReadString: a string is read where Check accepts it alone, and as what
// encoding/json reads.
func FuzzReadString(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\u0061"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"é€😀"`, "\"\xff\"", `"a`, `"\`, `"\u12`, `"\b\f\n\r\t\/\"\\"`, `1`, `""`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var scratch []byte
		text, end := ReadString(raw, 0, &scratch)
		if end == Refused {
			if len(raw) > 0 && raw[0] == '"' && Check(raw, 1) == nil && raw[len(raw)-1] == '"' {
				t.Fatalf("%q is refused", raw)
			}
			return
		}
		if e := Check(raw[:end], 1); e != nil {
			t.Fatalf("%q is taken, Check says %v", raw[:end], e)
		}
		var want string
		if err := json.Unmarshal(raw[:end], &want); err != nil || want != string(text) {
			t.Fatalf("%q is read as %q, want %q, %v", raw[:end], text, want, err)
		}
		if got := AppendDecoded(nil, raw[:end]); string(got) != want || SkipString(raw, 0) != end {
			t.Fatalf("%q is decoded as %q, want %q, its end %d, want %d", raw[:end], got, want, SkipString(raw, 0), end)
		}
	})
}
