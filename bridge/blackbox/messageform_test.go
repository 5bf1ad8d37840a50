// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// badNameCode is what the bridge answers where the only fault of a call in
// message form is a name that breaks the pattern of the schema.
const badNameCode = errmap.InvalidParams

// messageForm is the schemas of the message form and the bridge under test.
type messageForm struct {
	bridge *mcptest.Rig
	form   *contracttest.MessageForm
	tools  *contracttest.SchemaRegistry
}

func newMessageForm(t testing.TB, b *mcptest.Rig) *messageForm {
	t.Helper()
	tools := contracttest.New(b.Live.Current, contracttest.Options{})
	form, err := tools.LoadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return &messageForm{bridge: b, form: form, tools: tools}
}

// send makes a call in message form. It reports false where params select
// another form or break the envelope, so that nothing here is about them.
func (f *messageForm) send(t testing.TB, params string) (mcptest.Reply, bool) {
	t.Helper()
	in := inbound(f.bridge.NewOrigin(), mcptest.Canonical, `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":`+params+`}`)
	read := mcptest.Read(mcptest.Canonical, []byte(in.Text))
	if _, ok := lookup(read.Params, "tool_name"); read.Fault != nil || !read.IsRequest || !ok {
		return mcptest.Reply{}, false
	}
	return f.bridge.Send(context.Background(), in), true
}

// check sends params and compares what the bridge makes of them with the
// schemas. It returns the canonical code of the reply, empty on success.
func (f *messageForm) check(t testing.TB, params string) errmap.Code {
	t.Helper()
	reply, ok := f.send(t, params)
	if !ok {
		return ""
	}
	got := f.checkReply(t, params, reply)
	switch broken := f.broken(t, params); {
	case len(broken) == 0 && got == errmap.InvalidParams:
		t.Errorf("%.300q meets the schema and was refused", params)
	case slices.Equal(broken, []string{"/tool_name pattern"}) && got == badNameCode:
	case len(broken) > 0 && got != errmap.InvalidParams:
		t.Errorf("%.300q breaks the schema at %.100q: %q, want INVALID_PARAMS", params, broken, got)
	}
	if got == "" {
		f.checkRecord(t, params, reply)
	}
	return got
}

// broken is what the schema of a call says. Its validator bounds the numbers in
// a document and how many values it has; in arguments that is the concern of the
// tool's own schema, so where such a bound is met they are emptied.
func (f *messageForm) broken(t testing.TB, params string) []string {
	t.Helper()
	if mcptest.ExceedsBounds([]byte(params)) {
		params = shallow(t, params)
	}
	found, err := f.form.Call.Validate([]byte(params))
	if err != nil {
		t.Fatalf("%.300q: %v", params, err)
	}
	var out []string
	for _, v := range found {
		out = append(out, v.Path+" "+v.Keyword)
	}
	return out
}

// shallow keeps of every member that holds something else its type only.
func shallow(t testing.TB, params string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		switch value[0] {
		case '{':
			members[name] = json.RawMessage(`{}`)
		case '"', 't', 'f', 'n':
		default:
			members[name] = json.RawMessage(`0`)
		}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// checkReply holds a reply to the schema of a result: in kind, under the id of
// the request, with all four members, and with the status of the table.
func (f *messageForm) checkReply(t testing.TB, params string, reply mcptest.Reply) errmap.Code {
	t.Helper()
	m, err := contracttest.ValidateMessageEnvelope(reply.Bytes())
	if id, _ := m.ID.Text(); err != nil || m.Result == nil || id != "7" {
		t.Fatalf("%.300q was not answered in kind: %v\n%s", params, err, reply.Bytes())
	}
	found, err := f.form.Result.Validate(m.Result)
	if err != nil || len(found) > 0 {
		t.Errorf("%.300q: the result breaks its schema: %v, %v\n%s", params, found, err, m.Result)
	}
	names := slices.Sorted(maps.Keys(members(m.Result)))
	if diff := cmp.Diff([]string{"data", "error", "explanation", "status"}, names); diff != "" {
		t.Errorf("%.300q: members of the result, -want +got:\n%s", params, diff)
	}
	shown := decode(t, reply)
	code := shown.code()
	if (code == "") != (shown.Result.Status == "success") {
		t.Errorf("%.300q: status %q with the code %q", params, shown.Result.Status, code)
	}
	if code == "" {
		return code
	}
	row, err := errmap.Lookup(code)
	if err != nil {
		t.Fatal(err)
	}
	if code != errmap.ToolExecutionFailed && reply.Status != row.HTTP {
		t.Errorf("%.300q: HTTP status %d for %s, want %d", params, reply.Status, code, row.HTTP)
	}
	return code
}

// checkRecord holds a call that succeeded, as a recorded document, to the
// schemas of its tool.
func (f *messageForm) checkRecord(t testing.TB, params string, reply mcptest.Reply) {
	t.Helper()
	name, _ := lookup([]byte(params), "tool_name")
	input, _ := lookup([]byte(params), "arguments")
	output, _ := lookup(mcptest.Read(mcptest.Canonical, reply.Bytes()).Result, "data")
	tool, _ := jsonText(name)
	io, err := f.tools.LoadToolIO(tool)
	if err != nil {
		t.Fatal(err)
	}
	if err := io.ValidateIO([]byte(`{"tool":` + string(name) + `,"input":` + string(input) + `,"output":` + string(output) + `}`)); err != nil {
		t.Errorf("%.300q: %v\n%s", params, err, output)
	}
}

// messageCalls are params in message form, and what the demo service's sidecar
// makes of them.
func messageCalls() map[string]errmap.Code {
	return map[string]errmap.Code{
		`{"tool_name":"lab.echo","arguments":{}}`:                                                                            "",
		` { "arguments" : { "nonce" : "a" , "signed": "-7" } , "tool_name" : "lab.ech\u006f" } `:                             "",
		`{"tool_name":"fleet.get_vehicle","arguments":{"vehicleId":"101"}}`:                                                  "",
		`{"tool_name":"fleet.list_vehicles","arguments":{}}`:                                                                 "",
		`{"tool_name":"fleet.get_map","arguments":{}}`:                                                                       "",
		`{"tool_name":"lab.inspect","arguments":{"reply_headers":{"x-a":"b"}}}`:                                              "",
		`{"tool_name":"fleet.get_vehicle","arguments":{"vehicleId":"999"}}`:                                                  errmap.ToolExecutionFailed,
		`{"tool_name":"lab.fail","arguments":{"code":"FAIL_CODE_INTERNAL"}}`:                                                 errmap.ToolExecutionFailed,
		`{"tool_name":"lab.sleep","arguments":{"duration":"5s"}}`:                                                            errmap.Timeout,
		`{"tool_name":"fleet.cancel_order","arguments":{"orderId":"1"}}`:                                                     errmap.DestructiveBlocked,
		`{"tool_name":"lab.relay","arguments":{}}`:                                                                           errmap.InvalidToolInput,
		`{"tool_name":"lab.echo","arguments":{"nonce":7}}`:                                                                   errmap.InvalidToolInput,
		`{"tool_name":"lab.echo","arguments":{"signed":1e999}}`:                                                              errmap.InvalidToolInput,
		`{"tool_name":"lab.echo","arguments":{"signed":1e1000001,"x":` + strings.Repeat("9", 5000) + `}}`:                    errmap.InvalidToolInput,
		`{"tool_name":"lab.echo","arguments":{"unknown":null}}`:                                                              errmap.InvalidToolInput,
		`{"tool_name":"lab.ecko","arguments":{}}`:                                                                            errmap.ToolNotFound,
		`{"tool_name":"a.b.c.d_1","arguments":{}}`:                                                                           errmap.ToolNotFound,
		`{"tool_name":"` + strings.Repeat("a", 100_000) + `.b","arguments":{}}`:                                              errmap.ToolNotFound,
		`{"tool_name":"lab_echo","arguments":{}}`:                                                                            badNameCode,
		`{"tool_name":"Lab.Echo","arguments":{}}`:                                                                            badNameCode,
		`{"tool_name":"lab.echo\n","arguments":{}}`:                                                                          badNameCode,
		`{"tool_name":" lab.echo","arguments":{}}`:                                                                           badNameCode,
		`{"tool_name":"lab..echo","arguments":{}}`:                                                                           badNameCode,
		`{"tool_name":"outrigger.demo.v1.Lab/Echo","arguments":{}}`:                                                          badNameCode,
		`{"tool_name":"lab.\u0435cho","arguments":{}}`:                                                                       badNameCode, // a Cyrillic letter
		`{"tool_name":"lab_echo","arguments":[]}`:                                                                            errmap.InvalidParams,
		`{"tool_name":"","arguments":{}}`:                                                                                    errmap.InvalidParams,
		`{"tool_name":null,"arguments":{}}`:                                                                                  errmap.InvalidParams,
		`{"tool_name":["lab.echo"],"arguments":{}}`:                                                                          errmap.InvalidParams,
		`{"tool_name":"lab.echo"}`:                                                                                           errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":null}`:                                                                          errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":[]}`:                                                                            errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":"{}"}`:                                                                          errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":1e999}`:                                                                         errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":{},"version":"1.0.0"}`:                                                          errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":{},"_meta":{}}`:                                                                 errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":{},"name":"lab.echo"}`:                                                          errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":{},"x":null}`:                                                                   errmap.InvalidParams,
		`{"tool_name":"lab.echo","Arguments":{}}`:                                                                            errmap.InvalidParams,
		`{"tool_name":"lab.echo","arguments":{},"Tool_name":"x","a/b~c\n":{},"` + strings.Repeat("y", 10_000) + `":1e99999}`: errmap.InvalidParams,
	}
}

// TestMessageFormAgainstSchema: the bridge checks calls in message form by hand,
// and agrees with the published schemas on every call and every reply.
func TestMessageFormAgainstSchema(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{Timeout: durationpb.New(time.Second)}})
	}})
	f := newMessageForm(t, rig)
	for params, want := range messageCalls() {
		if got := f.check(t, params); got != want {
			t.Errorf("%.300q: %q, want %q", params, got, want)
		}
	}
}

// TestMessageFormNames: every tool can be called in message form, because its
// canonical name meets the pattern.
func TestMessageFormNames(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`)
	for _, tool := range mcptest.Memory(t).Current().All() {
		if !pattern.MatchString(tool.Name) {
			t.Errorf("%s cannot be called in message form", tool.Name)
		}
	}
}

// FuzzMessageForm does the same with random params. What is
// behind the bridge answers at once with the bytes that it was sent, which most
// tools' responses are not: so replies of all kinds come up.
func FuzzMessageForm(f *testing.F) {
	for params := range messageCalls() {
		f.Add([]byte(params))
	}
	form := newMessageForm(f, fake(f, mcptest.Echo, nil))
	f.Fuzz(func(t *testing.T, params []byte) {
		form.check(t, string(params))
	})
}
