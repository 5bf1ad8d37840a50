// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestThePrecedenceOfPropertyTexts: overlay, then comment, then annotation, and a later entry before an earlier one.
func TestThePrecedenceOfPropertyTexts(t *testing.T) {
	t.Parallel()
	const id, service = "relations.v1.RelationsService/Expand", "relations.v1.RelationsService"
	for name, tc := range map[string]struct {
		overlay  []Override
		comments bool
		want     string
	}{
		"annotation":         {nil, false, "Hidden by the comment."},
		"comment":            {nil, true, "The relation whose users are wanted."},
		"overlay":            {[]Override{{Match: id, Properties: map[string]string{"relation": "Of the entry."}}}, true, "Of the entry."},
		"overlay by a glob":  {[]Override{{Match: service + "/*", Properties: map[string]string{"relation": "Of the glob."}}}, true, "Of the glob."},
		"by the tool's name": {[]Override{{Match: "relations.expand", Properties: map[string]string{"relation": "Of the tool."}}}, true, "Of the tool."},
		"the later entry": {[]Override{
			{Match: id, Properties: map[string]string{"relation": "First."}}, {Match: "*/Expand", Properties: map[string]string{"relation": "Second."}},
		}, true, "Second."},
		"entries together": {[]Override{
			{Match: id, Properties: map[string]string{"relation": "First."}}, {Match: "*/Expand", Properties: map[string]string{"depth": "Second."}},
		}, true, "First."},
	} {
		files := relationsFiles(t)
		if !tc.comments {
			files = withoutComments(files)
		}
		tool := toolOf(t, mustBuild(t, BuildOptions{Overlay: tc.overlay}, filesOf(files...)), "relations.expand")
		if !bytes.Contains(tool.Input.Advertised(), []byte(`"relation":{"type":"string","description":"`+tc.want+`"}`)) {
			t.Errorf("%s: the schema is %s", name, tool.Input.Advertised())
		}
	}
}

// TestPropertyTextsAreOfTheirTool: other tools with the message keep theirs, and neither the fingerprint nor what is accepted
// changes. The next build has them too.
func TestPropertyTextsAreOfTheirTool(t *testing.T) {
	t.Parallel()
	const text = "What to look for."
	files := withoutComments(relationsFiles(t))
	overlay := BuildOptions{Overlay: []Override{{Match: "relations.v1.RelationsService/ListObjects", Properties: map[string]string{"type": text}}}}
	first, keep, err := build([]*source.Loaded{filesOf(files...)}, overlay, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := build([]*source.Loaded{filesOf(files...)}, overlay, keep)
	if err != nil {
		t.Fatal(err)
	}
	plain := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(files...)), "relations.list_objects")
	for name, c := range map[string]*Catalog{"built": first, "built again": second} {
		with, without := toolOf(t, c, "relations.list_objects"), toolOf(t, c, "relations.streamed_list_objects")
		if !bytes.Contains(with.Input.Advertised(), []byte(text)) || !bytes.Contains(with.Input.Shared(), []byte(text)) || bytes.Contains(without.Input.Advertised(), []byte(text)) {
			t.Errorf("%s: the schemas are %s\n%s", name, with.Input.Advertised(), without.Input.Advertised())
		}
		if with.Fingerprint() != plain.Fingerprint() || with.IsSame(plain) || with.Declared != nil {
			t.Errorf("%s: a new fingerprint, or the same look", name)
		}
	}
}

// TestPropertyTextsOfStreams are below "items", or of the header.
func TestPropertyTextsOfStreams(t *testing.T) {
	t.Parallel()
	o := headerOption("about")
	o.Overlay[0].Properties = map[string]string{"items.note": "A note in between.", "header": "About the file.", "header.name": "The name of the file."}
	tool := toolOf(t, mustBuild(t, o, filesOf(uploads())), "store.upload")
	for _, text := range o.Overlay[0].Properties {
		if !bytes.Contains(tool.Input.Advertised(), []byte(text)) {
			t.Errorf("no %q in %s", text, tool.Input.Advertised())
		}
	}
}

// TestWrongPathsOfPropertiesStopTheBuild: the error says what there is.
func TestWrongPathsOfPropertiesStopTheBuild(t *testing.T) {
	t.Parallel()
	one := func(match, path string) []Override {
		return []Override{{Match: match, Properties: map[string]string{path: "A text."}}}
	}
	files := []*descriptorpb.FileDescriptorProto{uploads()}
	for name, tc := range map[string]struct {
		overlay   []Override
		selection *Selection
		files     []*descriptorpb.FileDescriptorProto
		want      string
	}{
		"unknown":              {overlay: one("shop.v1.Shop/Get", "m"), want: `overlay entry shop.v1.Shop/Get: properties: m: shop.v1.In has no "m"; it has n, longName`},
		"below a number":       {overlay: one("shop.v1.Shop/Get", "n.x"), want: `there is no "x": shop.v1.In.n has no members to describe`},
		"a glob that has it":   {overlay: one("shop.v1.*/*", "long_name")},
		"a glob without it":    {overlay: one("shop.v1.*/*", "m"), want: `overlay entry shop.v1.*/*: properties: m: shop.v1.In has no "m"`},
		"a method that is not": {overlay: one("shop.v1.Shop/Gone", "m")}, // a warning, as for all entries
		"an excluded method":   {overlay: one("shop.v1.Shop/Get", "m"), selection: selection(t, nil, []string{"*/Get"})},
		"with a schema": {overlay: append(one("shop.v1.Shop/Get", "n"), Override{Match: "shop.v1.Shop/Get", InputSchema: []byte(takesNumber)}),
			want: "the tool has its own input_schema; describe them there"},
		"a stream":          {overlay: one("up.v1.Store/Upload", "note"), files: files, want: `the arguments are a stream; begin with "items.": items.note`},
		"a stream's items":  {overlay: one("up.v1.Store/Upload", "items"), files: files, want: `begin with "items."`},
		"a stream's header": {overlay: one("up.v1.Store/Upload", "header"), files: files, want: `begin with "items."`},
		"below the items":   {overlay: one("up.v1.Store/Upload", "items.x"), files: files, want: `has no "x"; it has `},
	} {
		if tc.files == nil {
			tc.files = []*descriptorpb.FileDescriptorProto{shopFile("Shop/Get", "Shop/Drop")}
		}
		_, err := Build([]*source.Loaded{filesOf(tc.files...)}, BuildOptions{Overlay: tc.overlay, Selection: tc.selection})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// TestClassesOfResults: paths are as the descriptor names them, for each method that has them.
func TestClassesOfResults(t *testing.T) {
	t.Parallel()
	one := func(match string, classes map[string]string) BuildOptions {
		return BuildOptions{Overlay: []Override{{Match: match, VisibleTo: classes}}}
	}
	files := filesOf(shopFile("Shop/Get", "Shop/Drop"))
	c := mustBuild(t, one("shop.v1.Shop/*", map[string]string{"longName": "pii"}), files)
	tool := toolOf(t, c, "shop.get")
	if tool.Classes["long_name"] != "pii" || len(tool.Classes) != 1 {
		t.Errorf("%v", tool.Classes)
	}
	if plain := mustBuild(t, BuildOptions{}, files); plain.looksLike(c) || toolOf(t, plain, "shop.get").Fingerprint() != tool.Fingerprint() {
		t.Error("no other look, or another fingerprint")
	}
	for path, want := range map[string]string{
		"m":   `overlay entry shop.v1.Shop/*: visible_to: m: shop.v1.Out has no field "m"`,
		"n.x": `overlay entry shop.v1.Shop/*: visible_to: n.x: n has no members`,
	} {
		_, err := Build([]*source.Loaded{files}, one("shop.v1.Shop/*", map[string]string{path: "pii"}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
