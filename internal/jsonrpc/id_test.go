// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1024)
	tests := []struct {
		name, raw, key string
		code           FaultCode
	}{
		{"string", `"a"`, "s:a", 0},
		{"empty string", `""`, "s:", 0},
		{"escaped", `"\u0061"`, "s:a", 0},
		{"all escapes", `"\"\\\/\b\f\n\r\t"`, "s:\"\\/\b\f\n\r\t", 0},
		{"NUL", `"\u0000"`, "s:\x00", 0},
		{"surrogate pair", `"\ud83d\ude00"`, "s:😀", 0},
		{"raw UTF-8", `"😀"`, "s:😀", 0},
		{"digits in a string", `"7"`, "s:7", 0},
		{"integer", `7`, "n:7", 0},
		{"zero", `0`, "n:0", 0},
		{"minus zero", `-0`, "n:0", 0},
		{"negative", `-7`, "n:-7", 0},
		{"2^53+1", `9007199254740993`, "n:9007199254740993", 0},
		{"largest int64", `9223372036854775807`, "n:9223372036854775807", 0},
		{"beyond int64", `9223372036854775808`, "n:9223372036854775808", 0},
		{"1024 digits", long, "n:" + long, 0},
		{"space around", " 7\n", "n:7", 0},
		{"space around a string", " \"a\" ", "s:a", 0},
		{"1025 digits", long + "9", "", FaultEnvelope},
		{"1025 bytes", `"` + long + `9"`, "", FaultEnvelope},
		{"fraction", `1.5`, "", FaultEnvelope},
		{"whole fraction", `7.0`, "", FaultEnvelope},
		{"exponent", `7e0`, "", FaultEnvelope},
		{"null", `null`, "", FaultEnvelope},
		{"true", `true`, "", FaultEnvelope},
		{"false", `false`, "", FaultEnvelope},
		{"object", `{"a":1}`, "", FaultEnvelope},
		{"array", `[1]`, "", FaultEnvelope},
		{"nothing", ``, "", FaultParse},
		{"quote", `"`, "", FaultParse},
		{"minus", `-`, "", FaultParse},
		{"leading zero", `07`, "", FaultParse},
		{"two", `7 7`, "", FaultParse},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id, err := ParseID([]byte(test.raw))
			if test.code != 0 {
				var fault *Fault
				if !errors.As(err, &fault) || fault.Code != test.code || !id.IsZero() {
					t.Fatalf("ParseID = %q, %v, want a %v fault", id, err, test.code)
				}
				checkReason(t, fault)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if id.Key() != test.key {
				t.Errorf("Key = %q, want %q", id.Key(), test.key)
			}
			if want := strings.TrimSpace(test.raw); id.String() != want || string(id.Raw()) != want {
				t.Errorf("echo is %s, want %s", id, want)
			}
			if marshalled, err := json.Marshal(id.Raw()); err != nil || len(marshalled) == 0 {
				t.Errorf("the echo is not JSON: %v", err)
			}
		})
	}
}

func TestIDEqual(t *testing.T) {
	t.Parallel()
	parse := func(raw string) ID {
		id, err := ParseID([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	tests := []struct {
		a, b ID
		want bool
	}{
		{parse(`"a"`), parse(`"\u0061"`), true},
		{parse(`"a"`), StringID("a"), true},
		{parse(`7`), IntID(7), true},
		{parse(`-0`), IntID(0), true},
		{parse(`7`), parse(`"7"`), false},
		{parse(`9007199254740993`), parse(`9007199254740992`), false},
		{parse(`"n:7"`), parse(`7`), false},
		{parse(`"a"`), parse(`"A"`), false},
		{parse(`""`), ID{}, false},
		{parse(`0`), ID{}, false},
		{ID{}, ID{}, true},
	}
	for _, test := range tests {
		if got := test.a.Equal(test.b); got != test.want {
			t.Errorf("%q.Equal(%q) = %v", test.a, test.b, got)
		}
		if got := test.b.Equal(test.a); got != test.want {
			t.Errorf("%q.Equal(%q) = %v", test.b, test.a, got)
		}
	}
}

func TestIDValues(t *testing.T) {
	t.Parallel()
	if text, ok := StringID("a\"\x00é").Text(); !ok || text != "a\"\x00é" {
		t.Errorf("Text = %q, %v", text, ok)
	}
	if _, ok := IntID(1).Text(); ok {
		t.Error("an integer id has a text")
	}
	if n, ok := IntID(-1 << 63).Int64(); !ok || n != -1<<63 {
		t.Errorf("Int64 = %d, %v", n, ok)
	}
	if id, _ := ParseID([]byte("9223372036854775808")); true {
		if _, ok := id.Int64(); ok {
			t.Error("2^63 fits an int64")
		}
	}
	var zero ID
	if _, ok := zero.Int64(); ok || !zero.IsZero() || zero.IsString() || zero.Raw() != nil || zero.Key() != "" || zero.String() != "" {
		t.Error("the zero ID is not absent")
	}
}

// TestIDIsACopy: buffers of an edge are reused while calls are in flight.
func TestIDIsACopy(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"jsonrpc":"2.0","id":"abc","method":"ping"}`)
	m := Parse(raw, ProfileMCP, Limits{})
	clear(raw)
	if m.ID.String() != `"abc"` || m.ID.Key() != "s:abc" || m.Method != "ping" {
		t.Errorf("id %q, key %q, method %q", m.ID, m.ID.Key(), m.Method)
	}
}

// TestUUIDProfile admits UUIDs only, for all kinds.
func TestUUIDProfile(t *testing.T) {
	t.Parallel()
	const id = "01980f6e-7c1a-7b3e-9a51-0c6d0f6f1d2e"
	for raw, good := range map[string]bool{
		`"` + id + `"`: true, `"` + strings.ToUpper(id) + `"`: true, `"\u0030` + id[1:] + `"`: true,
		`"1"`: false, `1`: false, `"call_` + id + `"`: false, `"` + id + `0"`: false, `"` + strings.Replace(id, "-", "0", 1) + `"`: false, `"` + strings.Replace(id, "e", "g", 1) + `"`: false, `"` + id[:35] + `-"`: false,
	} {
		for _, rest := range []string{`"method":"m","params":{}`, `"result":1`, `"error":{"code":1,"message":""}`} {
			m := Parse([]byte(`{"jsonrpc":"2.0","id":`+raw+`,`+rest+`}`), ProfileCanonicalUUID, Limits{})
			if (m.Fault == nil) != good || m.ID.String() != raw {
				t.Errorf("id %s beside %s: %v", raw, rest, m.Fault)
			}
		}
	}
	if m := Parse([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`), ProfileCanonicalUUID, Limits{}); m.Fault != nil {
		t.Errorf("null id of an error: %v", m.Fault)
	}
}
