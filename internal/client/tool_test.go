// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/client"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestSample: arguments to begin with have what the schema requires, of the right types.
func TestSample(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object"}`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                                                                                                                                  `{}`,
		`{"type":"object","properties":{"orderId":{"type":"string"}},"required":["orderId"]}`:                                                                                                     `{"orderId":"ORDERID"}`,
		`{"type":"object","properties":{"id":{"type":"string","format":"int64","pattern":"^([1-9][0-9]{0,18})$"}},"required":["id"]}`:                                                             `{"id":"1"}`,
		`{"type":"object","properties":{"n":{"type":"integer","minimum":9007199254740993},"m":{"type":"number","minimum":-1},"b":{"type":"boolean"}},"required":["n","m","b"]}`:                   `{"n":9007199254740993,"m":1,"b":true}`,
		`{"type":"object","properties":{"k":{"enum":["UNSPECIFIED","VAN"]},"c":{"const":3},"d":{"default":"x"},"e":{"examples":[7]}},"required":["k","c","d","e"]}`:                               `{"k":"VAN","c":3,"d":"x","e":7}`,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}},"m":{"type":"array","minItems":1,"items":{"type":"integer"}}},"required":["l","m"]}`:                       `{"l":[],"m":[1]}`,
		`{"type":"object","properties":{"o":{"$ref":"#/$defs/O"}},"required":["o"],"$defs":{"O":{"type":"object","properties":{"at":{"type":"string","format":"date-time"}},"required":["at"]}}}`: `{"o":{"at":"2026-01-31T12:00:00Z"}}`,
		`{"type":"object","properties":{"o":{"$ref":"#/$defs/O"}},"required":["o"],"$defs":{"O":{"type":"object","properties":{"o":{"$ref":"#/$defs/O"}},"required":["o"]}}}`:                     `{"o":{"o":{"o":null}}}`,
		`{"type":"object","properties":{"x":{"anyOf":[{"type":"string","pattern":"^-?(0|[1-9]\\d{0,10})s$"},{"type":"null"}]},"y":{"type":["integer","null"]}},"required":["x","y"]}`:             `{"x":"1s","y":1}`,
		`{"type":"object","properties":{},"required":["gone"]}`:                                                                                                                                   `{"gone":null}`,
		`7`: `{}`,
	} {
		if got := (&client.Tool{Input: json.RawMessage(schema)}).Sample(); string(got) != want {
			t.Errorf("%s\n%s, want %s", schema, got, want)
		}
	}
	if got := (&client.Tool{Examples: []json.RawMessage{json.RawMessage(`{"id": "7"}`)}}).Sample(); string(got) != `{"id":"7"}` {
		t.Errorf("an example: %s", got)
	}
}

// TestNamesAreOnOneLine: what a server calls a tool cannot forge a line of a list.
func TestNamesAreOnOneLine(t *testing.T) {
	t.Parallel()
	base := mcptest.Serve(t, answer(`{"jsonrpc":"2.0","id":"1","result":{"tools":[{"name":"a.b\nsidecar call c.d","inputSchema":{},"version":"1\u001b[2J","fingerprint":"\u202e"}]}}`))
	c, err := client.Open(client.Options{URL: base + "/rpc"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	tools, err := c.Tools(t.Context())
	if err != nil || len(tools) != 1 || tools[0].Name != "a.b?sidecar call c.d" || tools[0].Version != "1?[2J" || tools[0].Fingerprint != "?" {
		t.Errorf("%+v, %v", tools, err)
	}
}

// TestACallThatIsGivenUp is CANCELLED on every edge, and TIMEOUT only where its time is over.
func TestACallThatIsGivenUp(t *testing.T) {
	t.Parallel()
	base := mcptest.Start(t, mcptest.Options{}).Serve(t)
	for _, e := range edges() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			c := open(t, e, base)
			for want, end := range map[errmap.Code]func(context.Context) (context.Context, context.CancelFunc){
				errmap.Cancelled: func(ctx context.Context) (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(ctx)
					timer := time.AfterFunc(100*time.Millisecond, cancel)
					return ctx, func() { timer.Stop(); cancel() }
				},
				errmap.Timeout: func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, 100*time.Millisecond)
				},
			} {
				ctx, stop := end(t.Context())
				_, err := c.Call(ctx, &client.Call{Tool: "lab.sleep", Arguments: json.RawMessage(`{"duration":"20s"}`)})
				stop()
				var told *client.Error
				if !errors.As(err, &told) || told.Code != want {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
}

// FuzzSample: whatever schema a server sends, the sample is a JSON object.
func FuzzSample(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`)
	f.Add(`{"type":["object"],"properties":[],"required":{}}`)
	f.Add(`{"anyOf":[],"enum":[],"type":{}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		if got := (&client.Tool{Input: json.RawMessage(schema)}).Sample(); !json.Valid(got) || got[0] != '{' {
			t.Errorf("%s: %s", schema, got)
		}
	})
}
