// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// read is a value, and what is read from it: a message in text format, or the path
// of what is wrong.
type read struct {
	name, raw, want string
	path            string // of the fault, where wrong
	wrong           bool
}

func good(name, raw, want string) read { return read{name: name, raw: raw, want: want} }

func bad(name, raw, path string) read { return read{name: name, raw: raw, path: path, wrong: true} }

// reads checks what is read from each of the values.
func reads[T proto.Message](t *testing.T, empty func() T, from func([]byte) (T, error), cases []read) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := from([]byte(c.raw))
			if c.wrong {
				checkFault(t, err, c.path)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, empty(), c.want), got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func checkFault(t *testing.T, err error, path string) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is %v", err)
	}
	if invalid.Path != path || invalid.Reason == "" {
		t.Errorf("the fault is at %q (%s), want %q", invalid.Path, invalid.Reason, path)
	}
}

// times is a JSON array of n equal elements.
func times(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// pairs is a JSON object of n members with equal values.
func pairs(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%s`, i, value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func TestReadCapabilities(t *testing.T) {
	t.Parallel()
	reads(t, anew[outriggerv1.ClientCapabilities], ReadCapabilities, []read{
		good("nothing", `{}`, ``),
		good("space around", " {} \n", ``),
		good("elicitation", `{"elicitation":{}}`, `elicitation { form: true }`),
		good("form", `{"elicitation":{"form":{"x":1}}}`, `elicitation { form: true }`),
		good("url", `{"elicitation":{"url":{}}}`, `elicitation { url: true }`),
		good("both", `{"elicitation":{"url":{},"form":{}}}`, `elicitation { form: true url: true }`),
		good("another mode", `{"elicitation":{"voice":{}}}`, `elicitation { form: true }`),
		good("sampling", `{"sampling":{}}`, `sampling {}`),
		good("sampling with all", `{"sampling":{"context":{},"tools":{},"x":1}}`, `sampling { tools: true context: true }`),
		good("roots", `{"roots":{}}`, `roots {}`),
		good("roots that change", `{"roots":{"listChanged":true}}`, `roots { list_changed: true }`),
		good("extensions", `{"extensions":{"b/c": {"x": 1.50}, "a":{}}}`, `extensions_json: '{"b/c": {"x": 1.50}, "a":{}}'`),
		good("tasks", `{"extensions":{"io.modelcontextprotocol\u002ftasks":{}}}`, `tasks: true extensions_json: '{"io.modelcontextprotocol\\u002ftasks":{}}'`),
		good("extension without settings", `{"extensions":{"a":true}}`, `extensions_json: '{"a":true}'`),
		good("experimental", `{"experimental":{"a":{}}}`, `experimental_json: '{"a":{}}'`),
		good("unknown", `{"tasks":{"list":{}},"x":null}`, ``),
		bad("null", `null`, ``), bad("array", `[]`, ``), bad("text", `"{}"`, ``), bad("nothing at all", ``, ``),
		bad("elicitation null", `{"elicitation":null}`, `/elicitation`),
		bad("elicitation true", `{"elicitation":true}`, `/elicitation`),
		bad("url true", `{"elicitation":{"url":true}}`, `/elicitation/url`),
		bad("form null", `{"elicitation":{"form":null}}`, `/elicitation/form`),
		bad("sampling array", `{"sampling":[]}`, `/sampling`),
		bad("tools text", `{"sampling":{"tools":""}}`, `/sampling/tools`),
		bad("context number", `{"sampling":{"context":1}}`, `/sampling/context`),
		bad("roots number", `{"roots":1.5}`, `/roots`),
		bad("roots that change somehow", `{"roots":{"listChanged":"yes"}}`, `/roots/listChanged`),
		bad("extensions array", `{"extensions":[]}`, `/extensions`),
		bad("tasks true", `{"extensions":{"io.modelcontextprotocol/tasks":true}}`, `/extensions/io.modelcontextprotocol~1tasks`),
		bad("extensions too large", `{"extensions":{"a":"`+strings.Repeat("a", maxSettingsBytes)+`"}}`, `/extensions`),
		bad("experimental text", `{"experimental":"a"}`, `/experimental`),
		bad("experimental too large", `{"experimental":{"a":"`+strings.Repeat("a", maxSettingsBytes)+`"}}`, `/experimental`),
	})
}

func TestReadImplementation(t *testing.T) {
	t.Parallel()
	const start = `{"name":"a","version":"1",`
	reads(t, anew[outriggerv1.Implementation], ReadImplementation, []read{
		good("least", `{"name":"a","version":""}`, `name: "a"`),
		good("most", start+`"title":"A","description":"D","websiteUrl":"https://example.com","icons":[{"src":"data:image/png;base64,AA==","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"},{"src":"a:b"}],"x":1}`,
			`name: "a" version: "1" title: "A" description: "D" website_url: "https://example.com" icons { src: "data:image/png;base64,AA==" mime_type: "image/png" sizes: "48x48" sizes: "any" theme: "dark" } icons { src: "a:b" }`),
		bad("null", `null`, ``),
		bad("no name", `{"version":"1"}`, `/name`), bad("empty name", `{"name":"","version":"1"}`, `/name`), bad("number as name", `{"name":7,"version":"1"}`, `/name`),
		bad("long name", `{"name":"`+strings.Repeat("a", maxWordBytes+1)+`","version":"1"}`, `/name`),
		bad("no version", `{"name":"a"}`, `/version`), bad("null version", `{"name":"a","version":null}`, `/version`),
		bad("number as title", start+`"title":1}`, `/title`),
		bad("long description", start+`"description":"`+strings.Repeat("a", maxSentencesBytes+1)+`"}`, `/description`),
		bad("bad website", start+`"websiteUrl":"example.com"}`, `/websiteUrl`),
		bad("icons object", start+`"icons":{}}`, `/icons`), bad("icon text", start+`"icons":["a"]}`, `/icons/0`), bad("icon without source", start+`"icons":[{"src":"a:b"},{}]}`, `/icons/1/src`),
		bad("icon with bad source", start+`"icons":[{"src":"a b"}]}`, `/icons/0/src`), bad("theme", start+`"icons":[{"src":"a:b","theme":"pink"}]}`, `/icons/0/theme`),
		bad("sizes text", start+`"icons":[{"src":"a:b","sizes":"any"}]}`, `/icons/0/sizes`), bad("bad size", start+`"icons":[{"src":"a:b","sizes":["any","0x1"]}]}`, `/icons/0/sizes/1`),
		bad("many icons", start+`"icons":`+times(16+1, `{"src":"a:b"}`)+`}`, `/icons`),
	})
}

func TestReadProgressToken(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("9", maxNameBytes)
	reads(t, anew[outriggerv1.Id], ReadProgressToken, []read{
		good("text", `"a\u0041"`, `text: "aA"`), good("empty", `""`, `text: ""`), good("digits in a text", `"7"`, `text: "7"`),
		good("integer", `7`, `integer: 7`), good("negative", `-7`, `integer: -7`), good("zero", `0`, `integer: 0`), good("minus zero", `-0`, `integer: 0`),
		good("beyond a double", `9007199254740993`, `integer: 9007199254740993`),
		good("largest", `9223372036854775807`, `integer: 9223372036854775807`), good("larger", `9223372036854775808`, `big_integer: "9223372036854775808"`),
		good("least", `-9223372036854775808`, `integer: -9223372036854775808`), good("less", `-9223372036854775809`, `big_integer: "-9223372036854775809"`),
		good("longest", longest, `big_integer: "`+longest+`"`),
		good("longest text", `"`+longest+`"`, `text: "`+longest+`"`),
		bad("fraction", `1.0`, ``), bad("exponent", `1e2`, ``), bad("null", `null`, ``), bad("true", `true`, ``), bad("object", `{}`, ``), bad("nothing", ``, ``),
		bad("too long", longest+"9", ``), bad("text too long", `"`+longest+`9"`, ``), bad("minus", `-`, ``),
	})
	for _, raw := range []string{`"a\"b"`, `""`, `7`, `-9223372036854775808`, `123456789012345678901234567890`} {
		id, err := ReadProgressToken([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := tokenOf(id); string(got) != raw {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

func TestReadChangeFilter(t *testing.T) {
	t.Parallel()
	reads(t, anew[outriggerv1.ChangeFilter], ReadChangeFilter, []read{
		good("nothing", `{}`, ``), good("no", `{"toolsListChanged":false,"taskIds":[],"x":[]}`, ``),
		good("everything", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a","b:c"],"taskIds":["t"]}`,
			`tools_list_changed: true prompts_list_changed: true resources_list_changed: true resource_uris: "file:///a" resource_uris: "b:c" task_ids: "t"`),
		bad("null", `null`, ``), bad("array", `[]`, ``), bad("flag null", `{"toolsListChanged":null}`, `/toolsListChanged`), bad("flag text", `{"promptsListChanged":"true"}`, `/promptsListChanged`),
		bad("flag number", `{"resourcesListChanged":1}`, `/resourcesListChanged`), bad("one resource", `{"resourceSubscriptions":"file:///a"}`, `/resourceSubscriptions`),
		bad("bad resource", `{"resourceSubscriptions":["a:b","a b"]}`, `/resourceSubscriptions/1`), bad("number as resource", `{"resourceSubscriptions":["a:b",7]}`, `/resourceSubscriptions/1`),
		bad("bad task", `{"taskIds":["t","t t"]}`, `/taskIds/1`), bad("empty task", `{"taskIds":[""]}`, `/taskIds/0`), bad("long task", `{"taskIds":["`+strings.Repeat("t", 2049)+`"]}`, `/taskIds/0`),
		bad("many resources", `{"resourceSubscriptions":`+times(maxItems+1, `"a:b"`)+`}`, `/resourceSubscriptions`),
		bad("many tasks", `{"taskIds":`+times(maxItems+1, `"a"`)+`}`, `/taskIds`),
	})
	if _, err := ReadChangeFilter(nil); err == nil || !strings.Contains(err.Error(), "requires") {
		t.Errorf("a filter that is missing: %v", err)
	}
	for _, raw := range []string{`{}`, `{"toolsListChanged":true}`, `{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":` + times(maxItems, `"t"`) + `}`} {
		f, err := ReadChangeFilter([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AppendChangeFilter(nil, f); err != nil || string(got) != raw {
			t.Errorf("%s became %s, %v", raw, got, err)
		}
	}
}

func TestReadCompleteRequest(t *testing.T) {
	t.Parallel()
	const argument = `"argument":{"name":"a","value":"v"}`
	const prompt = `"ref":{"type":"ref/prompt","name":"p"},`
	reads(t, anew[outriggerv1.CompleteRequest], ReadCompleteRequest, []read{
		good("prompt", `{`+prompt+argument+`}`, `prompt: "p" argument { name: "a" value: "v" }`),
		good("resource", `{"ref":{"type":"ref/resource","uri":"shop://{id}","x":1},"argument":{"name":"a","value":""},"_meta":{}}`, `resource: "shop://{id}" argument { name: "a" }`),
		good("context", `{`+prompt+argument+`,"context":{"arguments":{"b":"c","d":""}}}`, `prompt: "p" argument { name: "a" value: "v" } filled_arguments { key: "b" value: "c" } filled_arguments { key: "d" value: "" }`),
		good("empty context", `{`+prompt+argument+`,"context":{}}`, `prompt: "p" argument { name: "a" value: "v" }`),
		bad("null", `null`, ``), bad("nothing", ``, ``), bad("no ref", `{`+argument+`}`, `/ref`), bad("ref text", `{"ref":"p",`+argument+`}`, `/ref`),
		bad("no type", `{"ref":{"name":"p"},`+argument+`}`, `/ref/type`), bad("another type", `{"ref":{"type":"ref/tool","name":"p"},`+argument+`}`, `/ref/type`),
		bad("no prompt", `{"ref":{"type":"ref/prompt"},`+argument+`}`, `/ref/name`), bad("no resource", `{"ref":{"type":"ref/resource","uri":""},`+argument+`}`, `/ref/uri`),
		bad("no argument", `{"ref":{"type":"ref/prompt","name":"p"}}`, `/argument`), bad("no name", `{`+prompt+`"argument":{"value":"v"}}`, `/argument/name`),
		bad("no value", `{`+prompt+`"argument":{"name":"a"}}`, `/argument/value`), bad("number as value", `{`+prompt+`"argument":{"name":"a","value":1}}`, `/argument/value`),
		bad("long value", `{`+prompt+`"argument":{"name":"a","value":"`+strings.Repeat("v", maxTextBytes+1)+`"}}`, `/argument/value`),
		bad("context array", `{`+prompt+argument+`,"context":[]}`, `/context`), bad("context arguments", `{`+prompt+argument+`,"context":{"arguments":"a"}}`, `/context/arguments`),
		bad("context value", `{`+prompt+argument+`,"context":{"arguments":{"a/b":1}}}`, `/context/arguments/a~1b`),
	})
}

func TestReadPromptArguments(t *testing.T) {
	t.Parallel()
	longName := strings.Repeat("n", maxNameBytes+1)
	for _, c := range []struct {
		raw  string
		want map[string]string
		path string
		bad  bool
	}{
		{raw: `null`}, {raw: ` null `}, {raw: `{}`, want: map[string]string{}}, {raw: `{"a":"b","c\u0064":""}`, want: map[string]string{"a": "b", "cd": ""}},
		{raw: pairs(2, `"v"`), want: map[string]string{"k0": "v", "k1": "v"}},
		{raw: `[]`, bad: true}, {raw: `"{}"`, bad: true}, {raw: ``, bad: true}, {raw: `{"a":1}`, bad: true, path: "/a"}, {raw: `{"a":null}`, bad: true, path: "/a"},
		{raw: `{"":"a"}`, bad: true}, {raw: `{"` + longName + `":"a"}`, bad: true}, {raw: pairs(maxPairs+1, `"v"`), bad: true},
		{raw: `{"a":"` + strings.Repeat("v", maxValueBytes+1) + `"}`, bad: true, path: "/a"},
	} {
		got, err := ReadPromptArguments([]byte(c.raw))
		if c.bad {
			checkFault(t, err, c.path)
		} else if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.raw, err, diff)
		}
	}
	if got, err := ReadPromptArguments(nil); got != nil || err != nil {
		t.Errorf("arguments that are missing: %v, %v", got, err)
	}
	if got, err := ReadPromptArguments([]byte(pairs(maxPairs, `"v"`))); len(got) != maxPairs || err != nil {
		t.Errorf("%d arguments: %v", len(got), err)
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		level, ok := ReadLogLevel(name)
		if !ok || level != outriggerv1.LogLevel(i+1) {
			t.Errorf("%s is %v, %v", name, level, ok)
		}
	}
	for _, name := range []string{"", "DEBUG", "warn", "trace", "debug "} {
		if level, ok := ReadLogLevel(name); ok || level != 0 {
			t.Errorf("%q is the level %v", name, level)
		}
	}
	if len(planOf(new(outriggerv1.LogMessage)).field("level").enum) != len(outriggerv1.LogLevel_name) {
		t.Errorf("%d names for %d levels", len(planOf(new(outriggerv1.LogMessage)).field("level").enum), len(outriggerv1.LogLevel_name))
	}
}
