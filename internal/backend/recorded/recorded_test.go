// SPDX-License-Identifier: Apache-2.0

package recorded_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	_ "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is a catalog of the demo service.
func lab(t testing.TB) *catalog.Catalog { return mcptest.Memory(t).Current() }

// one is a line of a recording.
func one(tool, input, output string) string {
	return fmt.Sprintf(`{"timestamp":"2026-01-01T00:00:00.000000Z","requestId":"1","tool":%q,"input":%s,"output":%s,"error":null,"durationMs":250.000}`, tool, input, output)
}

// failed is one of a call that failed.
func failed(tool, input, failure string) string {
	return strings.Replace(one(tool, input, "null"), `"error":null`, `"error":`+failure, 1)
}

// written is a directory with a recording.
func written(t testing.TB, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "calls.jsonl"), strings.Join(lines, "\n")+"\n")
	return dir
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// opened is an upstream over a recording.
func opened(t testing.TB, o recorded.Options, lines ...string) *recorded.Upstream {
	t.Helper()
	if len(lines) > 0 {
		var err error
		if o.Recording, err = recorded.Open(written(t, lines...)); err != nil {
			t.Fatal(err)
		}
	}
	cat := lab(t)
	o.Catalog = func() *catalog.Catalog { return cat }
	u := recorded.New(o)
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// call calls a tool, and returns its result as JSON, or its error.
func call(ctx context.Context, t testing.TB, u *recorded.Upstream, name, arguments string) (string, *errmap.Error) {
	t.Helper()
	tool, ok := lab(t).Lookup(name)
	if !ok {
		t.Fatal(name)
	}
	in, err := tool.In.ToWire(nil, []byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	var items [][]byte
	if tool.Streams() {
		_, failed := u.Stream(ctx, tool.Method, in, nil, func(message []byte) error {
			items = append(items, message)
			return nil
		})
		if failed != nil {
			return "", failed
		}
	} else {
		answer, failed := u.Call(ctx, tool.Method, in, nil)
		if failed != nil {
			return "", failed
		}
		items = append(items, answer.Body)
	}
	var out []string
	for _, item := range items {
		text, err := tool.Out.ToJSON(nil, item)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "\n"), nil
}

func TestOpen(t *testing.T) {
	t.Parallel()
	line := one("lab.echo", `{}`, `{}`)
	unfinished := `{"timestamp":"","requestId":"1","tool":null,"input":null,"output":null,"error":null,"durationMs":null}`
	older := `{"timestamp":"2026-01-01T00:00:00.000000Z","requestId":"1","tool":"lab.echo","input":{},"output":{}}`
	for name, tc := range map[string]struct {
		files map[string]string
		at    string
		fault string
	}{
		"a file":                         {map[string]string{"any.jsonl": line + "\n"}, "any.jsonl", ""},
		"a run":                          {map[string]string{"calls.jsonl": line}, "", ""},
		"of an earlier release":          {map[string]string{"calls.jsonl": older}, "", ""},
		"all runs":                       {map[string]string{"mcp_server/envelope_validation/.latest/calls.jsonl": line}, "", ""},
		"rotated":                        {map[string]string{"calls.1.jsonl": line, "calls.jsonl": ""}, "", ""},
		"a torn line":                    {map[string]string{"calls.jsonl": line + "\n" + line[:40]}, "", ""},
		"unfinished":                     {map[string]string{"calls.jsonl": unfinished + "\n" + line}, "", ""},
		"nothing there":                  {map[string]string{}, "no", "no does not exist; --record-payloads writes"},
		"another directory":              {map[string]string{"events.jsonl": line}, "", "no calls.jsonl; --record-payloads writes one"},
		"no call":                        {map[string]string{"calls.jsonl": unfinished}, "", "no recorded call; record some with --record-payloads"},
		"another file":                   {map[string]string{"calls.jsonl": strings.Repeat("text\n", 200)}, "", "calls.jsonl:101: no JSON of a recorded call: "},
		"JSON of another kind":           {map[string]string{"calls.jsonl": strings.Repeat("{}\n", 200)}, "", "calls.jsonl:101: no recorded call: it has neither input nor output"},
		"an output that is no object":    {map[string]string{"calls.jsonl": one("t", `{}`, `[]`)}, "", "no recorded call"},
		"a tool that is no text":         {map[string]string{"calls.jsonl": strings.Replace(line, `"lab.echo"`, `7`, 1)}, "", "no recorded call"},
		"a pattern of files in its name": {map[string]string{"a[b]*/calls.jsonl": line}, "a[b]*", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range tc.files {
				put(t, filepath.Join(dir, file), text)
			}
			r, err := recorded.Open(filepath.Join(dir, tc.at))
			if err == nil {
				err = r.Close()
			}
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

// Files that were set aside come in the order of their numbers, before the one that was written last.
func TestRotatedFilesAreReadInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, nonce := range map[string]string{"calls.9.jsonl": "a", "calls.10.jsonl": "b", "calls.jsonl": "c"} {
		put(t, filepath.Join(dir, file), one("lab.echo", `{}`, `{"nonce":"`+nonce+`"}`)+"\n")
	}
	r, err := recorded.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := opened(t, recorded.Options{Recording: r, Match: recorded.MatchExact})
	for _, want := range []string{"a", "b", "c", "c"} {
		if got, err := call(t.Context(), t, u, "lab.echo", `{}`); err != nil || !strings.Contains(got, `"nonce":"`+want+`"`) {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, seed := range []string{one("lab.echo", `{}`, `{}`), failed("lab.fail", `{}`, `{"error_details":{"code":"TIMEOUT"}}`), "{", `{"tool":"lab.relay","input":{"items":[{}]},"output":{"items":[{}]}}`} {
		f.Add([]byte(seed + "\n" + seed))
	}
	cat := lab(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "calls.jsonl")
		put(t, path, string(text))
		r, err := recorded.Open(path)
		if err != nil {
			return
		}
		u := recorded.New(recorded.Options{Recording: r, Match: recorded.MatchAny, Catalog: func() *catalog.Catalog { return cat }})
		defer func() { _ = u.Close() }()
		if what, _ := u.Says(); what == "" {
			t.Error("nothing is said")
		}
		for name, arguments := range map[string]string{"lab.echo": `{}`, "lab.fail": `{"code":"FAIL_CODE_ABORTED"}`} {
			_, _ = call(t.Context(), t, u, name, arguments)
		}
	})
}

// TestMatches has the order in which recorded calls answer.
func TestMatches(t *testing.T) {
	t.Parallel()
	lines := []string{
		one("fleet.get_vehicle", `{"vehicleId":"101"}`, `{"id":"101","callSign":"first"}`),
		one("fleet.get_vehicle", `{"vehicle_id":102}`, `{"id":"102","callSign":"second"}`),
		one("lab.echo", `{"nonce":"a","signed":"1"}`, `{"nonce":"one"}`),
		one("lab.echo", `{"nonce":"a","signed":"2","unsigned":"3"}`, `{"nonce":"two"}`),
		one("lab.echo", `{"nonce":"[redacted]","signed":"7"}`, `{"nonce":"secret"}`),
		one("lab.echo", `{"signed":0}`, `{"nonce":"none"}`),
	}
	for _, tc := range []struct {
		match                 recorded.Match
		tool, arguments, want string
	}{
		{"exact", "fleet.get_vehicle", `{"vehicleId":101}`, `"callSign":"first"`},
		{"exact", "fleet.get_vehicle", `{"vehicleId":"102"}`, `"callSign":"second"`},
		{"exact", "fleet.get_vehicle", `{"vehicleId":"103"}`, `no call of fleet.get_vehicle with such arguments was recorded (--replay-match exact); the nearest are {"vehicle_id":102}, {"vehicleId":"101"}`},
		{"fuzzy", "fleet.get_vehicle", `{"vehicleId":"103"}`, `the nearest are {"vehicle_id":102}, {"vehicleId":"101"}`},
		{"any", "fleet.get_vehicle", `{"vehicleId":"103"}`, `"callSign":"second"`},
		{"fuzzy", "lab.echo", `{}`, `"nonce":"none"`},
		{"exact", "lab.echo", `{"nonce":"a","signed":"1","unsigned":"3"}`, `no call`},
		{"fuzzy", "lab.echo", `{"nonce":"a","signed":"2","unsigned":"4"}`, `"nonce":"two"`},
		{"fuzzy", "lab.echo", `{"nonce":"a","signed":"1","unsigned":"9"}`, `"nonce":"one"`},
		{"fuzzy", "lab.echo", `{"nonce":"hunter2","signed":"7"}`, `"nonce":"secret"`},
		{"exact", "lab.echo", `{"nonce":"hunter2","signed":"7"}`, `no call`},
		{"any", "lab.sleep", `{"duration":"1s"}`, `no call of lab.sleep was recorded`},
	} {
		u := opened(t, recorded.Options{Match: tc.match}, lines...)
		got, err := call(t.Context(), t, u, tc.tool, tc.arguments)
		if err != nil {
			got = err.Message
			if err.Code != errmap.ToolExecutionFailed || err.BackendCode != "not_found" {
				t.Errorf("%s %s %s: %v", tc.match, tc.tool, tc.arguments, err)
			}
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s %s %s: got %s, want %s", tc.match, tc.tool, tc.arguments, got, tc.want)
		}
	}
}

// TestDrift: what does not fit is said at the start, and a call of it says so too.
func TestDrift(t *testing.T) {
	t.Parallel()
	u := opened(t, recorded.Options{Match: recorded.MatchFuzzy},
		one("lab.echo", `{"signed":"1"}`, `{"nonce":"a","gone":1}`),
		one("lab.echo", `{"signed":"2"}`, `{"signed":[]}`),
		one("lab.echo", `{"gone":"2"}`, `{}`),
		one("lab.gone", `{}`, `{}`),
		one("lab.echo", `{"signed":"3"}`, `{"dev.outrigger/omitted":{"bytes":70000,"reason":"too large"}}`),
		one("lab.echo", `{"nonce":"[redacted]"}`, `{}`),
		failed("lab.echo", `{"signed":"x"}`, `{"error_type":"SchemaError","error_message":"m","error_details":{"code":"INVALID_TOOL_INPUT"}}`),
		one("lab.echo", `{"signed":"4"}`, `null`),
		"nonsense",
	)
	what, problems := u.Says()
	if !strings.HasPrefix(what, "3 recorded calls of 1 tools in ") {
		t.Error(what)
	}
	for _, want := range []string{
		`1 recorded calls are of tools that the descriptors do not have: lab.gone`,
		`2 recorded calls have results that do not fit the descriptors, and fail: lab.echo: `,
		`1 recorded calls have arguments that do not fit the descriptors: lab.echo: `,
		`1 recorded calls lack values that the record left out because they are secret: lab.echo`,
		`1 recorded calls were too large to be recorded: lab.echo`,
		`1 recorded calls were refused by the sidecar, which decides again: lab.echo`,
		`1 recorded calls have no recorded answer: lab.echo`,
		`1 lines are no recorded calls: calls.jsonl:9: no JSON of a recorded call`,
	} {
		if !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("no %q in\n%s", want, strings.Join(problems, "\n"))
		}
	}
	for arguments, want := range map[string]string{`{"signed":"1"}`: `unknown field "gone"`, `{"signed":"2"}`: "signed"} {
		_, err := call(t.Context(), t, u, "lab.echo", arguments)
		if err == nil || err.Code != errmap.InvalidToolOutput || len(err.Violations) != 1 || !strings.Contains(err.Violations[0].Message, want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

// TestFailures: an error is replayed with its code, its message and its details.
func TestFailures(t *testing.T) {
	t.Parallel()
	const details = `"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TIDE"},{"@type":"example.com/unknown.Type","value":"AQI="}]`
	u := opened(t, recorded.Options{Match: recorded.MatchExact},
		failed("lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`, `{"error_type":"ResourceNotFound","error_message":"no such tide","error_details":{"code":"TOOL_EXECUTION_FAILED","retryable":false,"retryAfterMs":2000,"backendCode":"not_found",`+details+`}}`),
		failed("lab.fail", `{"code":"FAIL_CODE_INTERNAL"}`, `{"error_message":"late","error_details":{"code":"TIMEOUT","retryable":true}}`),
		failed("lab.fail", `{"code":"FAIL_CODE_ABORTED"}`, `{"error_message":"odd","error_details":{"code":"TOOL_EXECUTION_FAILED","backendCode":"unknown","backendStatus":42}}`),
	)
	_, err := call(t.Context(), t, u, "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`)
	if err == nil || err.Code != errmap.ToolExecutionFailed || err.BackendCode != "not_found" || err.Message != "no such tide" || err.RetryAfter != 2*time.Second ||
		len(err.Details) != 2 || err.Details[1].GetTypeUrl() != "example.com/unknown.Type" || string(err.Details[1].GetValue()) != "\x01\x02" {
		t.Errorf("got %+v", err)
	}
	if _, err = call(t.Context(), t, u, "lab.fail", `{"code":"FAIL_CODE_INTERNAL"}`); err == nil || err.Code != errmap.Timeout {
		t.Errorf("got %+v", err)
	}
	if _, err = call(t.Context(), t, u, "lab.fail", `{"code":"FAIL_CODE_ABORTED"}`); err == nil || err.BackendStatus != 42 {
		t.Errorf("got %+v", err)
	}
}

// TestLatency: an answer takes the time that was recorded, and no longer than its caller waits.
func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, isOn := range []bool{false, true} {
			u := opened(t, recorded.Options{Match: recorded.MatchExact, Latency: isOn}, one("lab.echo", `{}`, `{}`))
			start := time.Now()
			if _, err := call(t.Context(), t, u, "lab.echo", `{}`); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); isOn != (took == 250*time.Millisecond) {
				t.Errorf("on %t: %v", isOn, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := call(ctx, t, u, "lab.echo", `{}`)
			cancel()
			if isOn != (err != nil && err.Code == errmap.Timeout) {
				t.Errorf("on %t: %v", isOn, err)
			}
		}
	})
}

// TestStreams: the items of a stream are sent as such, and a stream of requests is answered when it has ended.
func TestStreams(t *testing.T) {
	t.Parallel()
	u := opened(t, recorded.Options{Match: recorded.MatchExact},
		one("fleet.watch_vehicles", `{"vehicleIds":["101"]}`, `{"items":[{"round":1},{"round":2}],"truncated":false}`),
		one("lab.relay", `{"items":[{"nonce":"a"},{"nonce":"b"}]}`, `{"items":[{"nonce":"A"},{"nonce":"B"}],"truncated":false}`))
	got, err := call(t.Context(), t, u, "fleet.watch_vehicles", `{"vehicleIds":["101"]}`)
	if err != nil || strings.Count(got, "\n") != 1 || !strings.Contains(got, `"round":2`) {
		t.Errorf("got %s, %v", got, err)
	}
	tool, _ := lab(t).Lookup("lab.relay")
	for _, nonces := range []string{"ab", "ba"} {
		stream, err := u.Open(t.Context(), tool.Method, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, nonce := range nonces {
			wire, err := tool.In.ToWire(nil, []byte(`{"nonce":"`+string(nonce)+`"}`))
			if err == nil {
				err = stream.Send(wire)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		stream.CloseSend()
		var items []string
		for {
			message, err := stream.Receive()
			if err != nil {
				var failed *errmap.Error
				if nonces == "ab" && !errors.Is(err, io.EOF) || nonces == "ba" && (!errors.As(err, &failed) || failed.BackendCode != "not_found") {
					t.Errorf("%s: %v", nonces, err)
				}
				break
			}
			text, _ := tool.Out.ToJSON(nil, message)
			items = append(items, string(text))
		}
		if nonces == "ab" && (len(items) != 2 || !strings.Contains(items[1], `"nonce":"B"`)) {
			t.Errorf("got %v", items)
		}
		stream.Close()
		if err := stream.Send(nil); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := u.Open(ctx, tool.Method, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	cancel()
	var failed *errmap.Error
	if _, err := stream.Receive(); !errors.As(err, &failed) || failed.Code != errmap.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// TestInventions: they are the same for the same seed and arguments, have what the request names, and end a list of pages.
func TestInventions(t *testing.T) {
	t.Parallel()
	first, second, other := opened(t, recorded.Options{Invents: true, Seed: 1}), opened(t, recorded.Options{Invents: true, Seed: 1}), opened(t, recorded.Options{Invents: true, Seed: 2})
	for _, tool := range lab(t).Tools() {
		if tool.TakesStream() {
			continue
		}
		arguments := map[string]string{
			"fleet.get_vehicle": `{"vehicleId":"55"}`, "fleet.get_order": `{"orderId":"56"}`, "fleet.get_delivery_proof": `{"orderId":"57"}`, "fleet.cancel_order": `{"orderId":"1"}`,
			"fleet.assign_order": `{"orderId":"58","vehicleId":"59"}`, "fleet.plan_route": `{"vehicleId":"60","stopIds":["1","2"]}`, "fleet.update_vehicle": `{"vehicleId":"61","patch":{"driver":"me"},"updateMask":"driver"}`,
			"lab.fail": `{"code":"FAIL_CODE_NOT_FOUND"}`, "lab.sleep": `{"duration":"1s"}`,
			"fleet.place_order": `{"customer":"me","destination":{"stopId":"4"},"parcels":[{"contents":"tea","weightKg":1}]}`,
		}[tool.Name]
		if arguments == "" {
			arguments = "{}"
		}
		got, err := call(t.Context(), t, first, tool.Name, arguments)
		if err != nil {
			t.Errorf("%s: %v", tool.Name, err)
			continue
		}
		if again, _ := call(t.Context(), t, second, tool.Name, arguments); again != got {
			t.Errorf("%s: %s, then %s", tool.Name, got, again)
		}
		if another, _ := call(t.Context(), t, other, tool.Name, arguments); another == got && len(got) > 60 {
			t.Errorf("%s is the same with another seed: %s", tool.Name, got)
		}
		for name, want := range map[string]string{
			"fleet.get_vehicle": `"id":"55"`, "fleet.get_order": `"id":"56"`, "fleet.get_delivery_proof": `"orderId":"57"`, "fleet.list_vehicles": `"nextPageToken":""`,
			"fleet.place_order": `"customer":"me"`,
		} {
			if name == tool.Name && !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", name, want, got)
			}
		}
	}
}

// A mock answers what was not recorded, and nothing else.
func TestRecordedBeforeInvented(t *testing.T) {
	t.Parallel()
	u := opened(t, recorded.Options{Match: recorded.MatchExact, Invents: true, Seed: 1}, one("fleet.get_vehicle", `{"vehicleId":"101"}`, `{"id":"101","callSign":"first"}`))
	if got, err := call(t.Context(), t, u, "fleet.get_vehicle", `{"vehicleId":"101"}`); err != nil || !strings.Contains(got, `"first"`) {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := call(t.Context(), t, u, "fleet.get_vehicle", `{"vehicleId":"102"}`); err != nil || !strings.Contains(got, `"id":"102"`) {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestEveryMessageIsInvented: each message of the project gets one that keeps its rules. The whole corpus is in conformance/corpus.
func TestEveryMessageIsInvented(t *testing.T) {
	t.Parallel()
	var count int
	var each func(protoreflect.MessageDescriptors)
	each = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			md := all.Get(i)
			each(md.Messages())
			if md.IsMapEntry() {
				continue
			}
			count++
			m, err := transcode.Compile(md, transcode.Options{})
			if err != nil {
				t.Errorf("%s: %v", md.FullName(), err)
				continue
			}
			check := func(wire []byte) error { return m.CheckWire(t.Context(), wire) }
			if _, err := recorded.Invent(md, nil, sha256.Sum256([]byte(md.FullName())), check); err != nil {
				t.Errorf("%s: %v", md.FullName(), err)
			}
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if fd.Package().Parent() != "" && strings.HasPrefix(string(fd.Package()), "outrigger.") {
			each(fd.Messages())
		}
		return true
	})
	if count < 200 {
		t.Errorf("only %d messages", count)
	}
}

// TestWhatCannotBeInvented: a message that must contain two of itself ends, and the error says what is missing.
func TestWhatCannotBeInvented(t *testing.T) {
	t.Parallel()
	field := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), TypeName: proto.String(".tree.Node"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("tree.proto"), Package: proto.String("tree"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Node"), Field: []*descriptorpb.FieldDescriptorProto{field("left", 1), field("right", 2)}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	never := errors.New("never")
	wire, err := recorded.Invent(file.Messages().Get(0), nil, [32]byte{}, func([]byte) error { return never })
	if !errors.Is(err, never) || len(wire) > 1<<20 {
		t.Errorf("%d bytes, %v", len(wire), err)
	}
}

// The bounds of a recording, each met by one more than it admits.
func TestBoundsOfARecording(t *testing.T) {
	t.Parallel()
	line := `{"tool":"lab.echo","input":{},"output":{}}` + "\n"
	for name, tc := range map[string]struct {
		text  string
		size  int64 // of a file that is larger than its text
		fault string
	}{
		"as many calls": {text: strings.Repeat(line, 200_000)},
		"one more call": {text: strings.Repeat(line, 200_001), fault: "calls.jsonl:200001: more than 200000 calls in all"},
		"one more byte": {text: line, size: 20*64<<20 + 1, fault: "more than 1342177280 bytes in all"},
	} {
		path := filepath.Join(t.TempDir(), "calls.jsonl")
		put(t, path, tc.text)
		if tc.size > 0 {
			if err := os.Truncate(path, tc.size); err != nil {
				t.Fatal(err)
			}
		}
		r, err := recorded.Open(path)
		if err == nil {
			err = r.Close()
		}
		if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A line that is too long is skipped.
	u := opened(t, recorded.Options{Match: recorded.MatchExact}, line, `{"tool":"lab.echo","input":{"nonce":"`+strings.Repeat("x", 16<<20)+`"},"output":{}}`)
	if _, problems := u.Says(); len(problems) != 1 || !strings.Contains(problems[0], "bytes, more than 16777216") {
		t.Errorf("problems: %v", problems)
	}
}

// An answer takes ten minutes at most, and a stream of requests has at most 64 MiB.
func TestBoundsOfAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := opened(t, recorded.Options{Match: recorded.MatchExact, Latency: true}, `{"tool":"lab.echo","input":{},"output":{},"durationMs":1e300}`)
		start := time.Now()
		if _, err := call(t.Context(), t, u, "lab.echo", `{}`); err != nil || time.Since(start) != 10*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	u := opened(t, recorded.Options{Invents: true})
	tool, _ := lab(t).Lookup("lab.relay")
	stream, failed := u.Open(t.Context(), tool.Method, nil)
	if failed != nil {
		t.Fatal(failed)
	}
	defer stream.Close()
	half := make([]byte, 32<<20)
	for i, message := range [][]byte{half, half, half[:1]} {
		want := []errmap.Code{"", "", errmap.PayloadTooLarge}[i]
		var refused *errmap.Error
		if err := stream.Send(message); errors.As(err, &refused) != (want != "") || refused != nil && refused.Code != want {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// However much a message may hold, an invention is bounded: a message within itself, and lists without end.
func TestBoundsOfInventions(t *testing.T) {
	t.Parallel()
	u := opened(t, recorded.Options{Invents: true})
	for _, seed := range []string{`{"nonce":"a"}`, `{"nonce":"b"}`} {
		got, err := call(t.Context(), t, u, "lab.echo", seed)
		if err != nil || len(got) > 1<<20 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	for _, md := range []protoreflect.MessageDescriptor{
		(&structpb.Struct{}).ProtoReflect().Descriptor(), (&descriptorpb.DescriptorProto{}).ProtoReflect().Descriptor(), // which have themselves
	} {
		for i := range 50 {
			wire, err := recorded.Invent(md, nil, [32]byte{byte(i)}, func([]byte) error { return nil })
			if err != nil || len(wire) > 256<<10 {
				t.Errorf("%s: %d bytes, %v", md.FullName(), len(wire), err)
			}
		}
	}
}

// natives is a catalog of native tools, from a file as a run of a sidecar has it.
func natives(t testing.TB, tools string) *catalog.Catalog {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tools.json")
	put(t, path, `{"server":{"name":"desk","version":"1","contract_version":"1.0.0","capabilities":{"tools":{}}},"tools":[`+tools+`]}`)
	from, err := source.FromReference(path, source.Limits{}, source.FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live := catalog.NewLive([]source.Source{from}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live.Current()
}

// TestNativeToolsThatHaveChanged: drift is said of arguments and of results, and a result that does not fit fails with the reason.
func TestNativeToolsThatHaveChanged(t *testing.T) {
	t.Parallel()
	cat := natives(t, `{"name":"count","input_schema":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false},
		"output_schema":{"type":"object","properties":{"left":{"type":"integer"}},"required":["left"]}}`)
	recording, err := recorded.Open(written(t,
		one("desk.count", `{"id":"1"}`, `{"left":3}`), one("desk.count", `{"id":"2"}`, `{"left":"many"}`), one("desk.count", `{"name":"3"}`, `{"left":3}`),
		one("desk.count", `{"id":"4"}`, `null`), failed("desk.count", `{"id":"5"}`, `{"error_message":"gone","error_details":{"code":"TOOL_EXECUTION_FAILED","backendCode":"not_found"}}`),
		one("desk.count", `{"id":"[redacted]"}`, `{"left":9}`), one("desk.sum", `{}`, `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	u := recorded.New(recorded.Options{Recording: recording, Match: recorded.MatchExact, Catalog: func() *catalog.Catalog { return cat }})
	defer func() { _ = u.Close() }()
	what, problems := u.Says()
	said := strings.Join(problems, "\n")
	for _, want := range []string{
		"1 recorded calls have results that do not fit the descriptors, and fail: desk.count: /left", "1 recorded calls have arguments that do not fit the descriptors: desk.count",
		"1 recorded calls have no recorded answer", "1 recorded calls lack values", "1 recorded calls are of tools that the descriptors do not have: desk.sum",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if !strings.HasPrefix(what, "4 recorded calls of 1 tools") {
		t.Error(what)
	}
	for id, want := range map[string]string{"1": `{"left":3}`, "2": "INVALID_TOOL_OUTPUT", "5": "TOOL_EXECUTION_FAILED", "6": "TOOL_EXECUTION_FAILED"} {
		out, _, failed := u.CallTool(t.Context(), &outriggerv1.ToolCall{ToolName: "count", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{ "id": "` + id + `" }`)}}, nil, nil)
		got := string(out.GetResult().GetDataJson())
		if failed != nil {
			got = string(failed.Code)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// TestInventedDataKeepToTheirSchema, whatever keywords it has.
func TestInventedDataKeepToTheirSchema(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{
		"references": `{"type":"object","properties":{"a":{"$ref":"#/$defs/item"},"list":{"type":"array","minItems":2,"uniqueItems":true,"items":{"$ref":"#/$defs/item"}}},"required":["a","list"],
			"$defs":{"item":{"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Z]{3}-[0-9]{4}$"},"next":{"$ref":"#/$defs/item"}},"required":["id"],"additionalProperties":false}}}`,
		"choices": `{"type":"object","properties":{"kind":{"enum":["a","b"]},"of":{"oneOf":[{"type":"string","minLength":20},{"type":"integer","exclusiveMinimum":7,"maximum":9}]},"is":{"const":{"x":1}},
			"maybe":{"type":["null","number"],"multipleOf":0.5}},"required":["kind","of","is","maybe"]}`,
		"parts":  `{"allOf":[{"type":"object","properties":{"a":{"type":"string","format":"uuid"}},"required":["a"]},{"properties":{"b":{"type":"boolean"}},"required":["b"]}]}`,
		"itself": `{"type":"object","properties":{"child":{"$ref":"#"},"n":{"type":"integer","minimum":-5,"maximum":-5}},"required":["n"]}`,
	} {
		cat := natives(t, `{"name":"count","input_schema":{"type":"object"},"output_schema":`+output+`}`)
		tool, _ := cat.Lookup("desk.count")
		u := recorded.New(recorded.Options{Invents: true, Catalog: func() *catalog.Catalog { return cat }})
		seen := map[string]bool{}
		for i := range 20 {
			call := &outriggerv1.ToolCall{ToolName: "count", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: fmt.Appendf(nil, `{"n":%d}`, i)}}
			out, _, failed := u.CallTool(t.Context(), call, nil, nil)
			again, _, _ := u.CallTool(t.Context(), call, nil, nil)
			data := out.GetResult().GetDataJson()
			if failed != nil || string(data) != string(again.GetResult().GetDataJson()) {
				t.Fatalf("%s: %v, %s", name, failed, data)
			}
			if found, err := tool.CheckResult(t.Context(), data, true); err != nil || len(found) > 0 {
				t.Errorf("%s: %s: %v %v", name, data, found, err)
			}
			seen[string(data)] = true
		}
		if name != "itself" && len(seen) < 3 {
			t.Errorf("%s: %d different ones", name, len(seen))
		}
	}
}
