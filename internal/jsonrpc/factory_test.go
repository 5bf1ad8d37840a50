// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// parsed is a message as it came in.
func parsed(raw string) Message { return Parse([]byte(raw), ProfileCanonicalAnyID, Limits{}) }

// TestFactories holds the bytes of what each factory makes.
func TestFactories(t *testing.T) {
	t.Parallel()
	text := parsed(`{"jsonrpc":"2.0","id":"\u0061","method":"m","params":{}}`)
	number := parsed(`{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{}}`)
	unreadable := parsed(`{"jsonrpc":"2.0","id":1.5,"method":"m","params":{}}`)
	faulty := parsed(`{"jsonrpc":"2.0","id":7,"method":"m"}`)
	badNotification := parsed(`{"jsonrpc":"2.0","method":""}`)
	badResponse := parsed(`{"jsonrpc":"2.0","id":"ours","error":null}`)
	call := func(m Message, err error) func() (Message, error) { return func() (Message, error) { return m, err } }
	tests := []struct {
		name string
		make func() (Message, error)
		want string
	}{
		{"request", call(NewRequest(StringID("1"), "m", []byte(` { "a" : [ 1 ] } `))), `{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":[1]}}`},
		{"request without params", call(NewRequest(IntID(1), "a\"b", nil)), `{"jsonrpc":"2.0","id":1,"method":"a\"b","params":{}}`},
		{"request under a deterministic id", call(NewGenerator(GeneratorOptions{Deterministic: true}).NewRequest("m", nil)), `{"jsonrpc":"2.0","id":"00000000-0000-7000-8000-000000000001","method":"m","params":{}}`},
		{"notification", call(NewNotification("m", []byte(`{"a":1}`))), `{"jsonrpc":"2.0","method":"m","params":{"a":1}}`},
		{"notification without params", call(NewNotification("m", nil)), `{"jsonrpc":"2.0","method":"m"}`},
		{"success, string id as it came", call(NewSuccess(text, []byte(`{"a":1}`))), `{"jsonrpc":"2.0","id":"\u0061","result":{"a":1}}`},
		{"success, integer id", call(NewSuccess(number, []byte(`[1]`))), `{"jsonrpc":"2.0","id":9007199254740993,"result":[1]}`},
		{"success without a result", call(NewSuccess(text, nil)), `{"jsonrpc":"2.0","id":"\u0061","result":null}`},
		{"error", call(NewError(text, -32001, "no\n", []byte(`{"a":null}`))), `{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32001,"message":"no\n","data":{"a":null}}}`},
		{"error without data", call(NewError(number, -32001, "", nil)), `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32001,"message":""}}`},
		{"error, null data", call(NewError(number, 9223372036854775807, "x", []byte(`null`))), `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":9223372036854775807,"message":"x","data":null}}`},
		{"error to a request with a fault", call(NewError(faulty, -32600, "no", nil)), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"no"}}`},
		{"error to an unreadable id", call(NewError(unreadable, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
		{"error to no message", call(NewError(Message{}, -32700, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`},
		{"error to a bad notification", call(NewError(badNotification, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
		{"error to a bad response", call(NewError(badResponse, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, err := test.make()
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.AppendTo([]byte("x"))
			if err != nil || string(got) != "x"+test.want {
				t.Errorf("got  %s, %v\nwant x%s", got, err, test.want)
			}
			if marshalled, err := json.Marshal(m); err != nil || string(marshalled) != test.want {
				t.Errorf("marshalled to %s, %v", marshalled, err)
			}
		})
	}
}

// TestFactoriesRefuse names the place of what would not be a message.
func TestFactoriesRefuse(t *testing.T) {
	t.Parallel()
	g := NewGenerator(GeneratorOptions{})
	request := parsed(`{"jsonrpc":"2.0","id":"1","method":"m","params":{}}`)
	notification := parsed(`{"jsonrpc":"2.0","method":"m"}`)
	response := parsed(`{"jsonrpc":"2.0","id":"1","result":1}`)
	faulty := parsed(`{"jsonrpc":"2.0","id":"1","method":"m"}`)
	failed := func(_ Message, err error) error { return err }
	tests := []struct {
		name string
		err  error
		code FaultCode
		path string
	}{
		{"no id", failed(NewRequest(ID{}, "m", nil)), FaultEnvelope, "/id"},
		{"long id", failed(NewRequest(StringID(strings.Repeat("x", 1025)), "m", nil)), FaultEnvelope, "/id"},
		{"no method", failed(g.NewRequest("", nil)), FaultEnvelope, "/method"},
		{"no method in a notification", failed(NewNotification("", nil)), FaultEnvelope, "/method"},
		{"params are an array", failed(g.NewRequest("m", []byte(`[]`))), FaultEnvelope, "/params"},
		{"params are null", failed(NewNotification("m", []byte(`null`))), FaultEnvelope, "/params"},
		{"params are empty bytes", failed(g.NewRequest("m", []byte{})), FaultParse, "/params"},
		{"params are cut off", failed(g.NewRequest("m", []byte(`{"a":[1,{"b"`))), FaultParse, "/params/a/1"},
		{"params hold a name twice", failed(g.NewRequest("m", []byte(`{"a":{"b":1,"b":2}}`))), FaultParse, "/params/a/b"},
		{"params end the envelope", failed(g.NewRequest("m", []byte(`{}},{"jsonrpc":"2.0"`))), FaultParse, "/params"},
		{"params add a member", failed(g.NewRequest("m", []byte(`{},"x":1`))), FaultParse, "/params"},
		{"params one level too deep", failed(g.NewRequest("m", []byte(`{"a":`+nested(63)+`}`))), FaultParse, "/params/a" + strings.Repeat("/0", 62)},
		{"params too large", failed(g.NewRequest("m", []byte(`{"a":"`+strings.Repeat("x", defaults.MaxMessageBytes-20)+`"}`))), FaultTooLarge, ""},
		{"method too large", failed(g.NewRequest(strings.Repeat("x", defaults.MaxMessageBytes), nil)), FaultTooLarge, ""},
		{"result is no JSON", failed(NewSuccess(request, []byte(`x`))), FaultParse, "/result"},
		{"result adds a member", failed(NewSuccess(request, []byte(`1,"id":2`))), FaultParse, "/result"},
		{"result of a notification", failed(NewSuccess(notification, nil)), FaultEnvelope, ""},
		{"result of a response", failed(NewSuccess(response, nil)), FaultEnvelope, ""},
		{"result of a request with a fault", failed(NewSuccess(faulty, nil)), FaultEnvelope, ""},
		{"result of a request without an id", failed(NewSuccess(Message{Kind: KindRequest}, nil)), FaultEnvelope, ""},
		{"error to a notification", failed(NewError(notification, 1, "m", nil)), FaultEnvelope, ""},
		{"error to a response", failed(NewError(response, 1, "m", nil)), FaultEnvelope, ""},
		{"code zero", failed(NewError(request, 0, "m", nil)), FaultEnvelope, "/error/code"},
		{"data is no JSON", failed(NewError(request, 1, "m", []byte(`{"a/b":nil}`))), FaultParse, "/error/data/a~1b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var fault *Fault
			if !errors.As(test.err, &fault) || fault.Code != test.code || fault.Path != test.path {
				t.Fatalf("error is %T %+v, want %v at %q", test.err, test.err, test.code, test.path)
			}
			checkReason(t, fault)
		})
	}
}

// TestFactoriesCopy what they are given.
func TestFactoriesCopy(t *testing.T) {
	t.Parallel()
	params := []byte(`{"a":1}`)
	m, err := NewNotification("m", params)
	if err != nil {
		t.Fatal(err)
	}
	params[5] = '2'
	if string(m.Params) != `{"a":1}` {
		t.Errorf("the message follows the caller's bytes: %s", m.Params)
	}
}

// TestAppendToRefuses messages that were put together by hand and lack something.
func TestAppendToRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		m    Message
		path string
	}{
		{"zero", Message{}, ""},
		{"no such kind", Message{Kind: KindError + 1}, ""},
		{"with a fault", Message{Kind: KindRequest, ID: IntID(1), Method: "m", Fault: envelopeFault("/x", "Another reason.")}, "/x"},
		{"request without a method", Message{Kind: KindRequest, ID: IntID(1)}, "/method"},
		{"request without an id", Message{Kind: KindRequest, Method: "m"}, "/id"},
		{"notification without a method", Message{Kind: KindNotification}, "/method"},
		{"success without an id", Message{Kind: KindSuccess}, "/id"},
		{"error without an error", Message{Kind: KindError}, "/error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.m.AppendTo([]byte("x"))
			var fault *Fault
			if !errors.As(err, &fault) || fault.Path != test.path || string(got) != "x" {
				t.Errorf("%s, %v", got, err)
			}
			if _, err := json.Marshal(test.m); !errors.As(err, &fault) {
				t.Errorf("marshalled: %v", err)
			}
		})
	}
}

// TestAppendToRoundTrip of everything that the parser accepts.
func TestAppendToRoundTrip(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"\u0061","method":"m","params":{"a":[1.0,"<&>"]}}`, `{"jsonrpc":"2.0","method":"m"}`, `{"jsonrpc":"2.0","method":"m","params":{}}`,
		`{"jsonrpc":"2.0","id":-0,"result":null}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"é","data":[]}}`,
	} {
		m := parsed(raw)
		got, err := m.AppendTo(nil)
		if err != nil || string(got) != raw {
			t.Errorf("%s came back as %s, %v", raw, got, err)
		}
		if diff := cmp.Diff(m, parsed(string(got)), cmpopts.IgnoreUnexported(Message{})); diff != "" {
			t.Error(diff)
		}
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
