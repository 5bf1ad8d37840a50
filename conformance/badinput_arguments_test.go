// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// kind is how an entry point's edge reads arguments, which decides who finds fault first.
type kind uint8

const (
	// inMessage: they are a part of a JSON-RPC message, which is read as a whole.
	inMessage kind = iota
	// inBytes: ToolService takes them as the text of JSON.
	inBytes
	// inStruct: ToolService's own JSON has them as they are, and the RPC library
	// reads it before there is a message.
	inStruct
	// inTyped: they are the whole request of the backend's own method.
	inTyped
	kinds
)

func (d entryPoint) kind() kind {
	switch {
	case d.edge == typedJSON:
		return inTyped
	case d.edge == toolJSON && d.name == asStruct:
		return inStruct
	case d.edge == toolJSON || d.edge == toolBinary:
		return inBytes
	}
	return inMessage
}

// Canonical codes, and what represents other ends.
const (
	badInput  = "INVALID_TOOL_INPUT"
	badParams = "INVALID_PARAMS"
	noTool    = "TOOL_NOT_FOUND"
	// served: the tool answers.
	served = "served"
	// unsent: this kind of entry point has no place for the input; the row says why.
	unsent = "unsent"
)

// wants are the ends of one input, by kind of entry point.
type wants [kinds]string

// The ends that most inputs have.
func syntax() wants    { return wants{parseError, badParams, parseError, badInput} }
func structure() wants { return wants{badInput, badInput, badInput, badInput} }

// argument is one input that is in the place of arguments.
type argument struct {
	row, name string
	ask       ask
	want      wants
	// path is where in the arguments the error points; the entry points that count from
	// the whole message have a prefix.
	path string
	// inForm is the end in the message form, where that is another one.
	inForm string
	// large inputs go to some entry points only: TestMegabytesOfNonsense and
	// TestMegabytesOfBrackets send their like to the others.
	large bool
}

// argumentInputs are the inputs of the rows about arguments, for every entry point.
func argumentInputs() []argument {
	echo := func(args string) ask { return ask{tool: toolEcho, procedure: procEcho, args: args} }
	list := func(args string) ask {
		return ask{tool: "fleet.list_vehicles", procedure: "/outrigger.demo.v1.Fleet/ListVehicles", args: args}
	}
	find := func(args string) ask {
		return ask{tool: "fleet.find_orders", procedure: "/outrigger.demo.v1.Fleet/FindOrders", args: args}
	}
	fail := func(args string) ask { return ask{tool: toolFail, procedure: procFail, args: args} }
	digits := strings.Repeat("7", 100_000)
	deep := func(n int) string { return `{"nonce":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }
	number := wants{badInput, badInput, badInput, badInput}
	return []argument{
		{row: rowJSON, name: "truncated", ask: echo(`{"nonce":"a"`), want: syntax()},
		{row: rowJSON, name: "nothing", ask: echo(``), want: wants{parseError, badParams, parseError, unsent}},
		{row: rowJSON, name: "a byte order mark", ask: echo("\xef\xbb\xbf{}"), want: syntax()},
		{row: rowJSON, name: "invalid UTF-8", ask: echo("{\"nonce\":\"\xff\"}"), want: syntax(), path: "/nonce"},
		{row: rowJSON, name: "a lone surrogate", ask: echo(`{"nonce":"\ud800"}`), want: syntax(), path: "/nonce"},
		{row: rowJSON, name: "trailing data", ask: echo(`{} {}`), want: syntax()},
		{row: rowJSON, name: "a name twice", ask: echo(`{"nonce":"a","nonce":"b"}`), want: syntax(), path: "/nonce"},
		{row: rowJSON, name: "a name twice, once escaped", ask: echo(`{"nonce":"a","nonc\u0065":"b"}`), want: syntax(), path: "/nonce"},
		{row: rowJSON, name: "nested 65 deep", ask: echo(deep(64)), want: wants{parseError, badParams, badParams, badInput}, path: "/nonce"},
		{row: rowJSON, name: "1 MB of brackets", large: true, ask: echo(`{"nonce":` + strings.Repeat("[", 1<<20)), want: syntax(), path: "/nonce"},
		{row: rowJSON, name: "1 MB of objects", large: true, ask: echo(`{"nonce":` + strings.Repeat(`{"a":`, 1<<20/5)), want: syntax(), path: "/nonce"},

		{row: rowNumbers, name: "an int32 that is too large", ask: list(`{"pageSize":2147483648}`), want: structure(), path: "/pageSize"},
		{row: rowNumbers, name: "an int32 that is too small, in a string", ask: list(`{"pageSize":"-2147483649"}`), want: structure(), path: "/pageSize"},
		{row: rowNumbers, name: "an int64 that is too large", ask: echo(`{"signed":"9223372036854775808"}`), want: structure(), path: "/signed"},
		{row: rowNumbers, name: "5.5 for an integer", ask: echo(`{"signed":5.5}`), want: structure(), path: "/signed"},
		{row: rowNumbers, name: "1e999", ask: echo(`{"signed":1e999}`), want: number, path: "/signed"},
		{row: rowNumbers, name: "1e1000001", ask: echo(`{"signed":1e1000001}`), want: number, path: "/signed"},
		{row: rowNumbers, name: "1e1000001 for a double", ask: find(`{"filter":{"heavierThanKg":1e1000001}}`), want: number, path: "/filter/heavierThanKg"},
		{row: rowNumbers, name: "100,000 digits", ask: echo(`{"signed":` + digits + `}`), want: number, path: "/signed"},
		{row: rowNumbers, name: "100,000 digits in a string", ask: echo(`{"signed":"` + digits + `"}`), want: structure(), path: "/signed"},
		{row: rowNumbers, name: "1 MB of digits", large: true, ask: echo(`{"signed":` + strings.Repeat("9", 1<<20) + `}`), want: number, path: "/signed"},
		{row: rowNumbers, name: "an unknown field", ask: echo(`{"nonsense":1}`), want: structure(), path: "/nonsense"},
		{row: rowNumbers, name: "1 MB of unknown fields", large: true, ask: echo(unknownFields(1 << 20)), want: structure(), path: "/x"},
		{row: rowNumbers, name: "one string of 1 MB", large: true, ask: echo(`{"nonce":"` + strings.Repeat("a", 1<<20) + `"}`), want: structure(), path: "/nonce"},
		{row: rowNumbers, name: "a wrong type deep inside", ask: find(`{"filter":{"all":{"filters":[{"vehicleId":"101"},{"not":{"any":{"filters":[{"label":{"key":{}}}]}}}]}}}`),
			want: structure(), path: "/filter/all/filters/1/not/any/filters/0/label/key"},
		{row: rowNumbers, name: "both names of one field", ask: fail(`{"code":"FAIL_CODE_INTERNAL","retryDelay":"1s","retry_delay":"1s"}`), want: structure(), path: "/retry"},

		{row: rowArguments, name: "null", ask: echo(`null`), want: wants{served, served, served, badInput}, inForm: badParams},
		{row: rowArguments, name: "missing", ask: ask{tool: toolEcho, procedure: procEcho, absent: true}, want: wants{served, served, served, unsent}, inForm: badParams},
		{row: rowArguments, name: "an array", ask: echo(`[]`), want: wants{badParams, badParams, badParams, badInput}},
		{row: rowArguments, name: "a string with JSON in it", ask: echo(`"{}"`), want: wants{badParams, badParams, badParams, badInput}},
		{row: rowArguments, name: "a number", ask: echo(`7`), want: wants{badParams, badParams, badParams, badInput}},

		{row: rowNames, name: "with a dot", ask: ask{tool: "lab.echo", args: `{}`, verbatim: true}, want: wants{served, served, served, unsent}},
		{row: rowNames, name: "with underscores", ask: ask{tool: "lab_echo", args: `{}`, verbatim: true}, want: wants{served, served, served, unsent}, inForm: badParams},
		{row: rowNames, name: "unknown", ask: ask{tool: "lab.ecko", args: `{}`}, want: wants{noTool, noTool, noTool, unsent}},

		{row: rowInjection, name: "line ends and quotes in a value", ask: echo(`{"nonce":"a\r\nx-evil: 1\r\n\r\n{\"level\":\"error\"}"}`), want: wants{served, served, served, served}},
		{row: rowInjection, name: "line ends in a tool's name", ask: ask{tool: "lab.echo\r\nx-evil: 1", args: `{}`, verbatim: true}, want: wants{noTool, badParams, badParams, unsent}, inForm: badParams},
	}
}

// unknownFields is an object of about n bytes with names that no message has.
func unknownFields(n int) string {
	var out strings.Builder
	for i := range n / 12 {
		fmt.Fprintf(&out, `"x%07d":1,`, i)
	}
	return "{" + out.String() + `"nonce":"a"}`
}

// end is how the input ends at an entry point.
func (in argument) end(d entryPoint) string {
	if in.inForm != "" && (d.edge == rpcMessage || d.name == inForm) {
		return in.inForm
	}
	return in.want[d.kind()]
}

// place is where the error points at an entry point, which counts from its own root.
func (in argument) place(d entryPoint, code string) string {
	switch {
	case code == parseError && strings.HasSuffix(d.name, "batch"):
		return "/0" // as much of it as was read: the array is refused as a whole
	case code == parseError && d.kind() == inStruct && in.path == "":
		return "" // the text is broken before or at the place
	case code == parseError && d.kind() == inStruct:
		return "/arguments" + in.path
	case code == parseError && in.path != "":
		return "/params/arguments" + in.path
	case code == badParams && d.kind() == inMessage && !in.ask.verbatim && !in.ask.absent:
		return "/params/arguments" + in.path
	case code == badParams && in.ask.verbatim && d.kind() != inMessage:
		return "/tool_name"
	case code == badParams && d.kind() == inBytes:
		return "/arguments_json" + in.path
	case code == badParams && d.kind() == inStruct:
		return "/arguments" // in one of its forms
	case code == badInput && d.kind() == inTyped && in.row == rowJSON:
		return "/" // the text is broken before or at the place
	case code == badInput:
		return in.path
	}
	return ""
}

// TestBadArgumentsAtEveryEntryPoint sends every input of the rows about arguments through
// every entry point: each gets its error, which says where it is, in bounded time; the
// entry point serves on, nothing is left in flight, and the process stays small.
func TestBadArgumentsAtEveryEntryPoint(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	all := entryPoints(t, server, "--demo")
	t.Run("doors", func(t *testing.T) {
		for _, d := range all {
			t.Run(string(d.edge)+" "+d.name, func(t *testing.T) {
				t.Parallel()
				d.takes(t, argumentInputs())
			})
		}
	})
	isQuiet(t, server.AdminURL("/metrics"))
}

// takes sends inputs through an entry point and judges their ends.
func (d entryPoint) takes(t *testing.T, inputs []argument) {
	t.Helper()
	for _, in := range inputs {
		want := in.end(d)
		if want == unsent || in.large && !d.large {
			continue
		}
		start := time.Now()
		got := d.ask(t, in.ask)
		if took := time.Since(start); took > hostileTime() {
			t.Errorf("%s: took %v", in.name, took)
		}
		in.judge(t, d, want, got)
	}
	d.isWell(t, ask{tool: toolEcho, procedure: procEcho, args: `{"nonce":"a"}`})
}

// judge compares an answer with what the table says.
func (in argument) judge(t *testing.T, d entryPoint, want string, got caller.Answer) {
	t.Helper()
	if want == served {
		if got.Err != nil || got.Fault != nil {
			t.Errorf("%s, %s: %v; %v, want an answer", in.row, in.name, got.Err, got.Fault)
		}
		return
	}
	if got.Fault == nil || got.Fault.Code != want {
		t.Errorf("%s, %s: %.200v; %v %.100s, want %s", in.row, in.name, got.Err, got.Fault, got.Data, want)
		return
	}
	if len(got.Fault.Message) > maxErrorText {
		t.Errorf("%s, %s: the message has %d bytes", in.row, in.name, len(got.Fault.Message))
	}
	if got.Fault.RPC != "" && got.Fault.RPC != map[string]string{noTool: "not_found"}[want] && got.Fault.RPC != "invalid_argument" {
		t.Errorf("%s, %s: the RPC's code is %s", in.row, in.name, got.Fault.RPC)
	}
	if want == parseError && d.kind() != inStruct && (got.Fault.Number != -32700 || d.edge != stdio && got.Fault.Status != 400) {
		t.Errorf("%s, %s: %v, want -32700 with 400", in.row, in.name, got.Fault)
	}
	if path := in.place(d, want); !strings.HasPrefix(firstPath(t, got.Fault), path) {
		t.Errorf("%s, %s: the error points at %.200q, want %q", in.row, in.name, firstPath(t, got.Fault), path)
	}
	if in.name == "unknown" && !strings.Contains(fmt.Sprintf("%s%s%v", got.Fault.Message, got.Fault.Data, got.Fault.Details), "echo") {
		t.Errorf("an unknown name gets no nearest ones: %v", got.Fault)
	}
}
