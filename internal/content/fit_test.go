// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		meta, fields string
		budget       int
		says         string
	}{
		{"", "", 0, ""},
		{`{"other":1}`, "", 0, ""},
		{`{"dev.outrigger/fields":"a,b","dev.outrigger/result-budget":1000}`, "a,b", 1000, ""},
		{`{"dev.outrigger/fields":7}`, "", 0, "want a string"},
		{`{"dev.outrigger/fields":null}`, "", 0, "want a string"},
		{`{"dev.outrigger/result-budget":255}`, "", 0, "from 256 to 134217728"},
		{`{"dev.outrigger/result-budget":1e99}`, "", 0, "from 256 to 134217728"},
		{`{"dev.outrigger/result-budget":134217729}`, "", 0, "from 256 to 134217728"},
	} {
		got, err := content.ReadWanted([]byte(tc.meta), "/params/_meta")
		switch {
		case tc.says != "":
			if err == nil || err.Code != errmap.InvalidParams || !strings.Contains(err.Violations[0].Message, tc.says) || !strings.HasPrefix(err.Violations[0].Path, "/params/_meta/dev.outrigger~1") {
				t.Errorf("%s: got %v", tc.meta, err)
			}
		case err != nil || got.Fields != tc.fields || got.Budget != tc.budget:
			t.Errorf("%s: got %+v, %v", tc.meta, got, err)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wanted     content.Wanted
		most, want int
	}{
		{content.Wanted{}, 1000, 0},
		{content.Wanted{ForModel: true}, 1000, 1000},
		{content.Wanted{ForModel: true}, 0, 0},
		{content.Wanted{ForModel: true, Budget: 500}, 1000, 500},
		{content.Wanted{ForModel: true, Budget: 5000}, 1000, 1000},
		{content.Wanted{ForModel: true, Budget: 5000}, 0, 5000},
		{content.Wanted{Budget: 5000}, 1000, 5000},
	} {
		if got := tc.wanted.Within(tc.most); got != tc.want {
			t.Errorf("%+v within %d: got %d, want %d", tc.wanted, tc.most, got, tc.want)
		}
	}
}

func TestEveryWrongPathIsNamed(t *testing.T) {
	t.Parallel()
	w := content.Wanted{Fields: "idd,name,x", Place: "/meta"}
	_, err := w.Mask(schema.ViewOf([]byte(`{"type":"object","properties":{"id":{},"name":{}},"additionalProperties":false}`)))
	if err == nil || len(err.Violations) != 2 || err.Violations[1].Path != "/meta/dev.outrigger~1fields" {
		t.Errorf("got %v", err)
	}
}

// Fields that came as an argument of catalog.call are an error about that argument.
func TestWrongFieldsByArgument(t *testing.T) {
	t.Parallel()
	w := content.Wanted{Fields: "idd", ByArgument: "catalog_call", Place: "/params/_meta"}
	_, err := w.Mask(schema.ViewOf([]byte(`{"type":"object","properties":{"id":{}},"additionalProperties":false}`)))
	if err == nil || err.Code != errmap.InvalidToolInput || err.Tool != "catalog_call" || len(err.Violations) != 1 || err.Violations[0].Path != "/fields" {
		t.Errorf("got %v", err)
	}
}

func TestStreamTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"5s": 5 * time.Second, "0.5s": 500 * time.Millisecond, "99999s": 99999 * time.Second, "100000s": 0, "0s": 0, "-1s": 0, "+1s": 0,
		"5": 0, "5m": 0, "1m5s": 0, "s": 0, ".s": 0, "": 0, "1e9s": 0, "9999999999999999999s": 0,
	} {
		if got, ok := content.StreamTime(text); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
		got, err := content.ReadWanted([]byte(`{"dev.outrigger/stream-time":"`+text+`"}`), "/params/_meta")
		if (err == nil) != (want > 0) || err == nil && got.StreamTime != want {
			t.Errorf("_meta %q: %+v %v, want %v", text, got, err, want)
		}
		if err != nil && (err.Code != errmap.InvalidParams || err.Violations[0].Path != "/params/_meta/dev.outrigger~1stream-time") {
			t.Errorf("_meta %q: %v", text, err.Violations)
		}
	}
}

func TestWhatIsSaidAboutACut(t *testing.T) {
	t.Parallel()
	r := content.Reduction{Size: 9000, Budget: 1000, PageSize: "pageSize", NextPage: "nextPageToken", URI: "outrigger://results/x", Until: time.Unix(0, 0)}
	r.Report.More = 2
	for range 5 {
		r.Report.Cuts = append(r.Report.Cuts, content.Cut{Path: "/a", Kept: 0, Of: 3}, content.Cut{Path: "/b", IsMember: true})
	}
	r.Report.Cuts[0].Path = ""
	for _, want := range []string{
		"1000 bytes; the whole has 9000", "Left out: all but the first 0 of 3 in the result; /b; all but the first 0 of 3 in /a; /b; and more in 8 places.",
		"until 1970-01-01T00:00:00Z with resources/read from outrigger://results/x", "?offset=0&length=1000", "smaller pageSize: the nextPageToken", content.FieldsKey,
	} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("the text lacks %q: %s", want, r.Text())
		}
	}
	result := &outriggerv1.ToolResult{MetaForm: &outriggerv1.ToolResult_MetaJson{MetaJson: []byte(`{"own":1}`)}}
	err := content.SetMeta(result, &r, nil)
	if _, kept := jsontext.Lookup(result.GetMetaJson(), "own"); err != nil || !kept || !json.Valid(result.GetMetaJson()) {
		t.Fatalf("%v: %s", err, result.GetMetaJson())
	}
	about, _ := jsontext.Lookup(result.GetMetaJson(), content.ReducedKey)
	for _, want := range []string{`"bytes":9000`, `{"path":"","kept":0,"of":3},{"path":"/b"}`, `"more":2`, `"uri":"outrigger://results/x","until":"1970-01-01T00:00:00Z"`} {
		if !strings.Contains(string(about), want) {
			t.Errorf("_meta lacks %s: %s", want, about)
		}
	}
	r.Through = true
	if text := r.Text(); !strings.Contains(text, "in the argument fields, as a field mask.") || strings.Contains(text, "_meta") {
		t.Errorf("by way of catalog.call: %s", text)
	}
	if r.Example = "a.id"; !strings.HasSuffix(r.Text(), `in the argument fields, such as "fields": "a.id".`) {
		t.Errorf("with an example: %s", r.Text())
	}
	r.URI, r.PageSize = "", ""
	if text := r.Text(); strings.Contains(text, "read") || strings.Contains(text, "smaller") || r.Link("t") != nil {
		t.Errorf("there is nothing to read: %s", text)
	}
}

func TestSetData(t *testing.T) {
	t.Parallel()
	result := &outriggerv1.ToolResult{Content: []*outriggerv1.ContentBlock{content.TextBlock("old"), content.TextBlock("other")}, Explanation: "First."}
	content.SetData(result, []byte("new"), func(text string) bool { return text == "old" }, "Second.", nil)
	if c := result.GetContent(); len(c) != 3 || c[0].GetText().GetText() != "new" || c[1].GetText().GetText() != "other" || c[2].GetText().GetText() != "Second." ||
		string(result.GetDataJson()) != "new" || result.GetExplanation() != "First. Second." {
		t.Errorf("got %v", result)
	}
	bare := &outriggerv1.ToolResult{Explanation: "First."}
	content.SetData(bare, []byte("new"), nil, "Second.", nil)
	if c := bare.GetContent(); len(c) != 3 || c[0].GetText().GetText() != "new" || c[1].GetText().GetText() != "First." || c[2].GetText().GetText() != "Second." {
		t.Errorf("got %v", bare)
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sizes  []int
		budget int
		want   []int
	}{
		{nil, 100, []int{}},
		{[]int{10, 20}, 100, []int{10, 20}},
		{[]int{1000, 10, 1000}, 100, []int{45, 10, 45}},
		{[]int{0, 500}, 100, []int{0, 100}},
	} {
		if got := content.Shares(tc.sizes, tc.budget); !slices.Equal(got, tc.want) {
			t.Errorf("%v in %d: got %v, want %v", tc.sizes, tc.budget, got, tc.want)
		}
	}
}

func TestWhatIsSaidAboutContent(t *testing.T) {
	t.Parallel()
	text := &outriggerv1.TextContent{Text: "one\ntwo\nthree"}
	lines := content.Reduction{Size: 13, Budget: 9, Kind: content.BlockText, Media: "text/plain", Path: "/content/0"}
	lines.CutText(text, 9)
	image := content.Reduction{Size: 5000, Budget: 9, Kind: content.BlockImage, Media: "image/png", Path: "/content/2", URI: "outrigger://results/x", Until: time.Unix(0, 0)}
	if text.GetText() != "one\ntwo\n" || !strings.Contains(lines.Text(), "all but the first 2 of 3 lines in /content/0/text.") || lines.MediaType() != "text/plain" {
		t.Errorf("got %q, %s", text.GetText(), lines.Text())
	}
	if said := image.Text(); !strings.HasPrefix(said, "An image was left out here: image/png, 5000 bytes, too large for this result's budget of 9 bytes. It can be read until 1970-01-01T00:00:00Z with resources/read from outrigger://results/x. The operator") {
		t.Errorf("got %s", said)
	}
	image.IsCallers = true
	if said := image.Text(); !strings.HasSuffix(said, "The call set this budget in _meta dev.outrigger/result-budget; it may set a larger one.") {
		t.Errorf("got %s", said)
	}
	for kind, want := range map[content.ReductionKind]string{content.BlockAudio: "Audio was", content.BlockResource: "An embedded resource was"} {
		if said := (&content.Reduction{Kind: kind}).Text(); !strings.HasPrefix(said, want) {
			t.Errorf("got %s", said)
		}
	}
	result := &outriggerv1.ToolResult{}
	err := content.SetMeta(result, nil, []content.Reduction{lines, image})
	want := `{"dev.outrigger/reduced":{"bytes":5013,"budget":9,"cut":[],"content":[{"path":"/content/0","bytes":13,"kept":2,"of":3},` +
		`{"path":"/content/2","bytes":5000,"uri":"outrigger://results/x","until":"1970-01-01T00:00:00Z"}]}}`
	if err != nil || string(result.GetMetaJson()) != want {
		t.Errorf("%v: got %s, want %s", err, result.GetMetaJson(), want)
	}
	fetched := content.Reduction{IsFetched: true}
	if strings.Contains(fetched.Text(), "A call may") {
		t.Errorf("got %s", fetched.Text())
	}
}

func TestFetchedBy(t *testing.T) {
	t.Parallel()
	first := content.Wanted{Fields: "a", Budget: 500}
	for _, tc := range []struct{ other, want content.Wanted }{
		{content.Wanted{}, first},
		{content.Wanted{Fields: "b", Budget: 300, ForModel: true}, content.Wanted{Fields: "a", Budget: 300, ForModel: true}},
		{content.Wanted{Budget: 900}, first},
	} {
		if got := first.FetchedBy(tc.other); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.other, got, tc.want)
		}
	}
	if got := (&content.Wanted{}).FetchedBy(content.Wanted{Budget: 900}); got.Budget != 900 {
		t.Errorf("got %+v", got)
	}
}
