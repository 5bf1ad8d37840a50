// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBuild holds the exact bytes that leave the process.
func TestBuild(t *testing.T) {
	t.Parallel()
	escaped, _ := ParseID([]byte(`"\u0061\/"`))
	big, _ := ParseID([]byte(`9223372036854775807`))
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"result", AppendResult(nil, StringID("1"), []byte(`{"a":[1,2]}`)), `{"jsonrpc":"2.0","id":"1","result":{"a":[1,2]}}`},
		{"result, spread over lines", AppendResult(nil, IntID(1), []byte("{\n \"a b\" : [ 1 ,\r\n\t2 ] }\n")), `{"jsonrpc":"2.0","id":1,"result":{"a b":[1,2]}}`},
		{"result, nil", AppendResult(nil, IntID(1), nil), `{"jsonrpc":"2.0","id":1,"result":null}`},
		{"result, escaped id", AppendResult(nil, escaped, []byte(`{}`)), `{"jsonrpc":"2.0","id":"\u0061\/","result":{}}`},
		{"result, large id", AppendResult(nil, big, []byte(`{}`)), `{"jsonrpc":"2.0","id":9223372036854775807,"result":{}}`},
		{"result, numbers as written", AppendResult(nil, IntID(1), []byte(`[1.0,1e2,-0,18446744073709551615]`)), `{"jsonrpc":"2.0","id":1,"result":[1.0,1e2,-0,18446744073709551615]}`},
		{"result, after other bytes", AppendResult([]byte("x"), IntID(1), []byte(`{}`)), `x{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"error", AppendError(nil, StringID("1"), false, -32600, "no", nil), `{"jsonrpc":"2.0","id":"1","error":{"code":-32600,"message":"no"}}`},
		{"error, omit only what is absent", AppendError(nil, StringID("1"), true, -32600, "no", nil), `{"jsonrpc":"2.0","id":"1","error":{"code":-32600,"message":"no"}}`},
		{"error, null id", AppendError(nil, ID{}, false, -32700, "no", nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`},
		{"error, omitted id", AppendError(nil, ID{}, true, -32700, "no", nil), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`},
		{"error, data", AppendError(nil, IntID(0), true, 1, "", []byte(` { "a" : null } `)), `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"","data":{"a":null}}}`},
		{"error, hostile message", AppendError(nil, IntID(0), true, 1, "a\"\\\n\r\t\x00\x1f\x7f</é\u2028\xff\"", nil), `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"a\"\\\n\r\t\u0000\u001f` + "\x7f</é\u2028\ufffd" + `\""}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if string(test.got) != test.want {
				t.Errorf("got  %s\nwant %s", test.got, test.want)
			}
			if !json.Valid(test.got) && !strings.HasPrefix(test.want, "x") {
				t.Error("not JSON")
			}
		})
	}
}

// TestBuildAllocates nothing when the buffer is large enough.
func TestBuildAllocates(t *testing.T) {
	buffer, id, result := make([]byte, 0, 1024), StringID("abc"), []byte(`{"a": 1}`)
	if n := testing.AllocsPerRun(100, func() {
		AppendResult(buffer, id, result)
		AppendError(buffer, id, true, -32603, "Internal \"error\"", result)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestParseAllocates only the id and the method.
func TestParseAllocates(t *testing.T) {
	for _, size := range sizes {
		if n := testing.AllocsPerRun(20, func() { Parse(size.raw, ProfileCanonical, Limits{}) }); n > 2 {
			t.Errorf("%s: %v allocations, want at most 2", size.name, n)
		}
	}
}
