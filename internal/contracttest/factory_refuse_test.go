// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// parsed is a message as it came in.
func parsed(raw string) jsonrpc.Message {
	return jsonrpc.Parse([]byte(raw), jsonrpc.ProfileCanonicalAnyID, jsonrpc.Limits{})
}

// TestFactories holds the bytes of what each factory makes.
func TestFactories(t *testing.T) {
	t.Parallel()
	text := parsed(`{"jsonrpc":"2.0","id":"\u0061","method":"m","params":{}}`)
	number := parsed(`{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{}}`)
	unreadable := parsed(`{"jsonrpc":"2.0","id":1.5,"method":"m","params":{}}`)
	faulty := parsed(`{"jsonrpc":"2.0","id":7,"method":"m"}`)
	badNotification := parsed(`{"jsonrpc":"2.0","method":""}`)
	badResponse := parsed(`{"jsonrpc":"2.0","id":"ours","error":null}`)
	call := func(m jsonrpc.Message, err error) func() (jsonrpc.Message, error) {
		return func() (jsonrpc.Message, error) { return m, err }
	}
	tests := []struct {
		name string
		make func() (jsonrpc.Message, error)
		want string
	}{
		{"request", call(contracttest.NewRequest(jsonrpc.StringID("1"), "m", []byte(` { "a" : [ 1 ] } `))), `{"jsonrpc":"2.0","id":"1","method":"m","params":{"a":[1]}}`},
		{"request without params", call(contracttest.NewRequest(jsonrpc.IntID(1), "a\"b", nil)), `{"jsonrpc":"2.0","id":1,"method":"a\"b","params":{}}`},
		{"request under a deterministic id", call(contracttest.NewGenerator(contracttest.GeneratorOptions{Deterministic: true}).NewRequest("m", nil)), `{"jsonrpc":"2.0","id":"00000000-0000-7000-8000-000000000001","method":"m","params":{}}`},
		{"notification", call(contracttest.NewNotification("m", []byte(`{"a":1}`))), `{"jsonrpc":"2.0","method":"m","params":{"a":1}}`},
		{"notification without params", call(contracttest.NewNotification("m", nil)), `{"jsonrpc":"2.0","method":"m"}`},
		{"success, string id as it came", call(contracttest.NewSuccess(text, []byte(`{"a":1}`))), `{"jsonrpc":"2.0","id":"\u0061","result":{"a":1}}`},
		{"success, integer id", call(contracttest.NewSuccess(number, []byte(`[1]`))), `{"jsonrpc":"2.0","id":9007199254740993,"result":[1]}`},
		{"success without a result", call(contracttest.NewSuccess(text, nil)), `{"jsonrpc":"2.0","id":"\u0061","result":null}`},
		{"error", call(contracttest.NewError(text, -32001, "no\n", []byte(`{"a":null}`))), `{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32001,"message":"no\n","data":{"a":null}}}`},
		{"error without data", call(contracttest.NewError(number, -32001, "", nil)), `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32001,"message":""}}`},
		{"error, null data", call(contracttest.NewError(number, 9223372036854775807, "x", []byte(`null`))), `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":9223372036854775807,"message":"x","data":null}}`},
		{"error to a request with a fault", call(contracttest.NewError(faulty, -32600, "no", nil)), `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"no"}}`},
		{"error to an unreadable id", call(contracttest.NewError(unreadable, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
		{"error to no message", call(contracttest.NewError(jsonrpc.Message{}, -32700, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`},
		{"error to a bad notification", call(contracttest.NewError(badNotification, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
		{"error to a bad response", call(contracttest.NewError(badResponse, -32600, "no", nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, err := test.make()
			if err != nil {
				t.Fatal(err)
			}
			if got := contracttest.AppendTo([]byte("x"), m); string(got) != "x"+test.want {
				t.Errorf("got  %s\nwant x%s", got, test.want)
			}
		})
	}
}

// TestFactoriesRefuse names the place of what would not be a message.
func TestFactoriesRefuse(t *testing.T) {
	t.Parallel()
	g := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	request := parsed(`{"jsonrpc":"2.0","id":"1","method":"m","params":{}}`)
	notification := parsed(`{"jsonrpc":"2.0","method":"m"}`)
	response := parsed(`{"jsonrpc":"2.0","id":"1","result":1}`)
	faulty := parsed(`{"jsonrpc":"2.0","id":"1","method":"m"}`)
	failed := func(_ jsonrpc.Message, err error) error { return err }
	tests := []struct {
		name string
		err  error
		code jsonrpc.FaultCode
		path string
	}{
		{"no id", failed(contracttest.NewRequest(jsonrpc.ID{}, "m", nil)), jsonrpc.FaultEnvelope, "/id"},
		{"long id", failed(contracttest.NewRequest(jsonrpc.StringID(strings.Repeat("x", 1025)), "m", nil)), jsonrpc.FaultEnvelope, "/id"},
		{"no method", failed(g.NewRequest("", nil)), jsonrpc.FaultEnvelope, "/method"},
		{"no method in a notification", failed(contracttest.NewNotification("", nil)), jsonrpc.FaultEnvelope, "/method"},
		{"params are an array", failed(g.NewRequest("m", []byte(`[]`))), jsonrpc.FaultEnvelope, "/params"},
		{"params are null", failed(contracttest.NewNotification("m", []byte(`null`))), jsonrpc.FaultEnvelope, "/params"},
		{"params are empty bytes", failed(g.NewRequest("m", []byte{})), jsonrpc.FaultParse, "/params"},
		{"params are cut off", failed(g.NewRequest("m", []byte(`{"a":[1,{"b"`))), jsonrpc.FaultParse, "/params/a/1"},
		{"params hold a name twice", failed(g.NewRequest("m", []byte(`{"a":{"b":1,"b":2}}`))), jsonrpc.FaultParse, "/params/a/b"},
		{"params end the envelope", failed(g.NewRequest("m", []byte(`{}},{"jsonrpc":"2.0"`))), jsonrpc.FaultParse, "/params"},
		{"params add a member", failed(g.NewRequest("m", []byte(`{},"x":1`))), jsonrpc.FaultParse, "/params"},
		{"params one level too deep", failed(g.NewRequest("m", []byte(`{"a":`+nested(63)+`}`))), jsonrpc.FaultParse, "/params/a" + strings.Repeat("/0", 62)},
		{"params too large", failed(g.NewRequest("m", []byte(`{"a":"`+strings.Repeat("x", defaults.MaxMessageBytes-20)+`"}`))), jsonrpc.FaultTooLarge, ""},
		{"method too large", failed(g.NewRequest(strings.Repeat("x", defaults.MaxMessageBytes), nil)), jsonrpc.FaultTooLarge, ""},
		{"result is no JSON", failed(contracttest.NewSuccess(request, []byte(`x`))), jsonrpc.FaultParse, "/result"},
		{"result adds a member", failed(contracttest.NewSuccess(request, []byte(`1,"id":2`))), jsonrpc.FaultParse, "/result"},
		{"result of a notification", failed(contracttest.NewSuccess(notification, nil)), jsonrpc.FaultEnvelope, ""},
		{"result of a response", failed(contracttest.NewSuccess(response, nil)), jsonrpc.FaultEnvelope, ""},
		{"result of a request with a fault", failed(contracttest.NewSuccess(faulty, nil)), jsonrpc.FaultEnvelope, ""},
		{"result of a request without an id", failed(contracttest.NewSuccess(jsonrpc.Message{Kind: jsonrpc.KindRequest}, nil)), jsonrpc.FaultEnvelope, ""},
		{"error to a notification", failed(contracttest.NewError(notification, 1, "m", nil)), jsonrpc.FaultEnvelope, ""},
		{"error to a response", failed(contracttest.NewError(response, 1, "m", nil)), jsonrpc.FaultEnvelope, ""},
		{"code zero", failed(contracttest.NewError(request, 0, "m", nil)), jsonrpc.FaultEnvelope, "/error/code"},
		{"data is no JSON", failed(contracttest.NewError(request, 1, "m", []byte(`{"a/b":nil}`))), jsonrpc.FaultParse, "/error/data/a~1b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var fault *jsonrpc.Fault
			if !errors.As(test.err, &fault) || fault.Code != test.code || fault.Path != test.path {
				t.Fatalf("error is %T %+v, want %v at %q", test.err, test.err, test.code, test.path)
			}
		})
	}
}

// TestFactoriesCopy what they are given.
func TestFactoriesCopy(t *testing.T) {
	t.Parallel()
	params := []byte(`{"a":1}`)
	m, err := contracttest.NewNotification("m", params)
	if err != nil {
		t.Fatal(err)
	}
	params[5] = '2'
	if string(m.Params) != `{"a":1}` {
		t.Errorf("the message follows the caller's bytes: %s", m.Params)
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
		got := contracttest.AppendTo(nil, m)
		if string(got) != raw {
			t.Errorf("%s came back as %s", raw, got)
		}
		if diff := cmp.Diff(m, parsed(string(got)), cmpopts.IgnoreUnexported(jsonrpc.Message{})); diff != "" {
			t.Error(diff)
		}
	}
}
