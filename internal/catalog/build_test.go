// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestEveryMethodBecomesATool(t *testing.T) {
	t.Parallel()
	c := garden(t)
	want := []string{
		"garden.uproot", "garden_keeper.drop_crate", "garden_keeper.get_plant", "garden_keeper.list_http_sensors",
		"garden_keeper.name", "garden_keeper.put_crate", "garden_keeper.talk", "garden_keeper.watch_plants",
		"garden_keeper.water_plant",
	}
	if diff := cmp.Diff(want, namesOf(c)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for _, tool := range c.All() {
		if tool.Title == "" || tool.Description == "" {
			t.Errorf("%s has title %q and description %q", tool.Name, tool.Title, tool.Description)
		}
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(tool.Fingerprint()) {
			t.Errorf("%s has fingerprint %q", tool.Name, tool.Fingerprint())
		}
		var input struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(tool.Input.Advertised(), &input); err != nil || input.Type != "object" {
			t.Errorf("%s has an input schema of type %q (%v): %s", tool.Name, input.Type, err, tool.Input.Advertised())
		}
		if tool.In == nil || tool.Out == nil {
			t.Errorf("%s has no transcoders", tool.Name)
		}
	}
	if got := toolOf(t, c, "garden_keeper.talk").Method; !got.ClientStreaming || !got.ServerStreaming {
		t.Errorf("talk streams %v, %v, want both ways", got.ClientStreaming, got.ServerStreaming)
	}
	if got := toolOf(t, c, "garden_keeper.watch_plants").Method; got.ClientStreaming || !got.ServerStreaming {
		t.Errorf("watch_plants streams %v, %v, want from the server only", got.ClientStreaming, got.ServerStreaming)
	}
}

func TestLookupTakesBothFormsAndNoHiddenTool(t *testing.T) {
	t.Parallel()
	c := garden(t)
	for _, name := range []string{"garden_keeper.get_plant", "garden_keeper_get_plant"} {
		if got := toolOf(t, c, name).Method.Procedure; got != "/garden.v1.GardenKeeper/GetPlant" {
			t.Errorf("%s is %s", name, got)
		}
	}
	if tool, ok := c.ByProcedure("/garden.v1.GardenKeeper/PullPlant"); !ok || tool.Name != "garden.uproot" {
		t.Errorf("the procedure of PullPlant finds %v", tool)
	}
	for _, name := range []string{
		"garden_keeper.sharpen_tools", "garden_keeper_sharpen_tools", "garden_keeper.pull_plant", "", "GetPlant",
	} {
		if tool, ok := c.Lookup(name); ok {
			t.Errorf("Lookup(%q) finds %s", name, tool.Name)
		}
	}
	if _, ok := c.ByProcedure("/garden.v1.GardenKeeper/SharpenTools"); ok {
		t.Error("a hidden tool is found by its procedure")
	}
	if n := len(c.All()) - len(c.Tools()); n != 1 {
		t.Errorf("All has %d more than Tools, want the hidden tool", n)
	}
}

func TestDescriptions(t *testing.T) {
	t.Parallel()
	c := garden(t)
	for _, tc := range []struct{ tool, title, description string }{
		{
			"garden_keeper.get_plant", "Look up one plant, e.g. by its label",
			"Look up one plant, e.g. by its label. It is not watered by that.\n\nThe answer has the plant's age.",
		},
		{"garden_keeper.water_plant", "Water a plant", "Deprecated.\n\nWater a plant."},
		{"garden.uproot", "Pull out", "Deprecated since 1.1.0.\n\nPull a plant out."},
		{
			"garden_keeper.list_http_sensors", "List HTTP sensors",
			"List HTTP sensors. Takes no arguments. Returns a JSON array. Gardens are looked after here.",
		},
	} {
		tool := toolOf(t, c, tc.tool)
		if tool.Title != tc.title {
			t.Errorf("%s has title %q, want %q", tc.tool, tool.Title, tc.title)
		}
		if tool.Description != tc.description {
			t.Errorf("%s has description %q, want %q", tc.tool, tool.Description, tc.description)
		}
	}
	for _, tool := range c.All() {
		if tool.Name == "garden_keeper.sharpen_tools" && strings.Contains(tool.Description, "gardener") {
			t.Errorf("a comment marked @exclude is shown: %q", tool.Description)
		}
	}
}

func TestDescriptionIsNeverEmptyWithoutComments(t *testing.T) {
	t.Parallel()
	for _, tool := range mustBuild(t, BuildOptions{Selection: selection(t, nil, []string{"depot.v1.Depot", "google.*"})}, loadFile(t, protocSet)).All() {
		if tool.Title == "" || tool.Description == "" {
			t.Errorf("%s has title %q and description %q", tool.Name, tool.Title, tool.Description)
		}
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	c := garden(t)
	for tool, want := range map[string]string{
		"garden_keeper.get_plant":         `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`,
		"garden_keeper.water_plant":       `{"idempotentHint":true}`,
		"garden.uproot":                   `{"readOnlyHint":false,"destructiveHint":true}`,
		"garden_keeper.name":              `{}`,
		"garden_keeper.list_http_sensors": `{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true}`,
		"garden_keeper.put_crate":         `{"idempotentHint":true}`,
		"garden_keeper.drop_crate":        `{"destructiveHint":true}`,
	} {
		got, err := json.Marshal(toolOf(t, c, tool).Annotations)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is annotated %s, want %s", tool, got, want)
		}
	}
}

func TestOnlyMarkedToolsAreDestructive(t *testing.T) {
	t.Parallel()
	for _, tool := range garden(t).All() {
		if got, want := tool.Metadata.Destructive, tool.Name == "garden.uproot" || tool.Name == "garden_keeper.drop_crate"; got != want {
			t.Errorf("%s destructive: %v, want %v", tool.Name, got, want)
		}
	}
}

func TestDeclaredOptions(t *testing.T) {
	t.Parallel()
	c := garden(t)
	tool := toolOf(t, c, "garden.uproot")
	want := Metadata{Module: "beds", Destructive: true, DeprecatedIn: "1.1.0", CacheTTL: time.Minute}
	if diff := cmp.Diff(want, tool.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if tool.Version != "1.2.0" || tool.Timeout != 5*time.Second || !slices.Equal(tool.Tags, []string{"plants"}) {
		t.Errorf("version %s, timeout %v, tags %v", tool.Version, tool.Timeout, tool.Tags)
	}
	plain := toolOf(t, c, "garden_keeper.get_plant")
	want = Metadata{Module: "garden.v1.GardenKeeper", CacheTTL: 300 * time.Second}
	if diff := cmp.Diff(want, plain.Metadata); diff != "" {
		t.Errorf("default metadata (-want +got):\n%s", diff)
	}
	if plain.Version != "1.0.0" || plain.Timeout != 0 || plain.TaskSupport != "forbidden" {
		t.Errorf("version %s, timeout %v, task support %s", plain.Version, plain.Timeout, plain.TaskSupport)
	}
	if got := toolOf(t, c, "garden_keeper.water_plant").Metadata.DeprecatedIn; got != "unknown" {
		t.Errorf("a deprecated method was deprecated in %q, want unknown", got)
	}
}

func TestExamplesThatTheToolRefusesAreLeftOut(t *testing.T) {
	t.Parallel()
	c := garden(t)
	want := []Example{{Name: "one rose", Arguments: json.RawMessage(`{"label":"rose"}`)}}
	if diff := cmp.Diff(want, toolOf(t, c, "garden.uproot").Examples); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
	if !hasWarning(c, "example 2 (wrong) omitted") {
		t.Errorf("no warning about the wrong example: %v", c.Warnings())
	}
}

func hasWarning(c *Catalog, text string) bool {
	return slices.ContainsFunc(c.Warnings(), func(w source.Warning) bool { return strings.Contains(w.String(), text) })
}

func TestOutputsThatAreNoObjectsAreMarked(t *testing.T) {
	t.Parallel()
	c := garden(t)
	for tool, want := range map[string]bool{
		"garden_keeper.name":              true,  // StringValue
		"garden_keeper.list_http_sensors": true,  // ListValue
		"garden_keeper.put_crate":         true,  // Timestamp
		"garden.uproot":                   false, // Empty
		"garden_keeper.drop_crate":        false, // Any
		"garden_keeper.get_plant":         false,
	} {
		if got := toolOf(t, c, tool).OutputNotObject; got != want {
			t.Errorf("%s OutputNotObject: %v, want %v", tool, got, want)
		}
	}
}

func TestOverlayWinsMemberByMember(t *testing.T) {
	t.Parallel()
	no := false
	c := mustBuild(t, BuildOptions{Overlay: []Override{
		{Match: "garden.v1.GardenKeeper/PullPlant", Options: &configv1.ToolOptions{
			Destructive: &no, Title: "Remove", Tags: []string{"a", "b"}, Timeout: durationpb.New(time.Second),
		}},
		{Match: "garden_keeper.sharpen_tools", Options: &configv1.ToolOptions{Hidden: &no, Name: "shed.sharpen"}},
		{Match: "nowhere.*", Options: &configv1.ToolOptions{Title: "x"}},
	}}, loadFile(t, bufImage))
	tool := toolOf(t, c, "garden.uproot")
	if tool.Metadata.Destructive || tool.Title != "Remove" || tool.Timeout != time.Second || tool.Version != "1.2.0" {
		t.Errorf("overlaid: destructive %v, title %q, timeout %v, version %s", tool.Metadata.Destructive, tool.Title, tool.Timeout, tool.Version)
	}
	if got := tool.Annotations.Destructive; got == nil || *got {
		t.Errorf("destructiveHint is %v, want a declared false", got)
	}
	if !slices.Equal(tool.Tags, []string{"a", "b"}) {
		t.Errorf("tags %v, want the overlay's alone", tool.Tags)
	}
	toolOf(t, c, "shed.sharpen")
	if !hasWarning(c, "overlay entry nowhere.*: it matches no method") {
		t.Errorf("no warning about the entry that matches nothing: %v", c.Warnings())
	}
}

func TestOrderOfDescriptorsDoesNotMatter(t *testing.T) {
	t.Parallel()
	forward, back := loadFile(t, bufImage), loadFile(t, bufImage)
	slices.Reverse(back.Files)
	a, b := mustBuild(t, BuildOptions{}, forward), mustBuild(t, BuildOptions{}, back)
	if a.Fingerprint() != b.Fingerprint() {
		t.Error("the fingerprint depends on the order of the files")
	}
	if diff := cmp.Diff(namesOf(a), namesOf(b)); diff != "" {
		t.Errorf("tools differ:\n%s", diff)
	}
}

func TestFingerprintsFollowSchemas(t *testing.T) {
	t.Parallel()
	base := rpcFile("a.proto", "a", "S/One", "S/Two")
	changed := proto.CloneOf(base)
	changed.MessageType[0].Field = []*descriptorpb.FieldDescriptorProto{{
		Name: new("x"), Number: proto.Int32(1), JsonName: new("x"),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
	}}
	a, b := mustBuild(t, BuildOptions{}, filesOf(base)), mustBuild(t, BuildOptions{}, filesOf(changed))
	if toolOf(t, a, "s.one").Fingerprint() != toolOf(t, a, "s.two").Fingerprint() {
		t.Error("equal schemas have different fingerprints")
	}
	if toolOf(t, a, "s.one").Fingerprint() == toolOf(t, b, "s.one").Fingerprint() {
		t.Error("a new field leaves the fingerprint as it was")
	}
	if a.Fingerprint() == b.Fingerprint() {
		t.Error("a new field leaves the catalog's fingerprint as it was")
	}
}

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	a, errA := canonicalJSON([]byte(`{ "b": 18446744073709551615, "a": "\u0061/\u00fc" }`))
	b, errB := canonicalJSON([]byte(`{"a":"a\/ü","b":18446744073709551615}`))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if want := `{"a":"a/ü","b":18446744073709551615}`; string(a) != want || string(b) != want {
		t.Errorf("canonical forms %s and %s, want %s", a, b, want)
	}
	if _, err := canonicalJSON([]byte(`{`)); err == nil {
		t.Error("half an object has a canonical form")
	}
}

func TestCollisionsNameBothMethodsAndTheWayOut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		files []*descriptorpb.FileDescriptorProto
		want  Collision
	}{
		{
			"one service in two packages",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "shop.v1", "Cart/Add"), rpcFile("b.proto", "stall.v1", "Cart/Add")},
			Collision{"cart.add", "canonical", []string{"shop.v1.Cart/Add", "stall.v1.Cart/Add"}},
		},
		{
			"a dot and an underscore meet in MCP",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "Cart/ItemAdd", "CartItem/Add")},
			Collision{"cart_item_add", "MCP", []string{"a.Cart/ItemAdd", "a.CartItem/Add"}},
		},
		{
			"spelling",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "Cart/GetItem", "Cart/get_item")},
			Collision{"cart.get_item", "canonical", []string{"a.Cart/GetItem", "a.Cart/get_item"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Build([]*source.Loaded{filesOf(tc.files...)}, BuildOptions{})
			got := asError[*BuildError](t, err)
			if diff := cmp.Diff([]Collision{tc.want}, got.Collisions); diff != "" {
				t.Errorf("collisions (-want +got):\n%s", diff)
			}
			if len(got.Tools) != 2 || got.Tools[0].MCPName != got.Tools[1].MCPName {
				t.Errorf("the error knows %d tools, want the two that collide", len(got.Tools))
			}
			for _, word := range append(tc.want.Methods, tc.want.Name, "(outrigger.v1.tool).name", "overlay", "--exclude "+tc.want.Methods[1]) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not name %q: %v", word, err)
				}
			}
			// Each of the ways out that the error names works.
			mustBuild(t, BuildOptions{Selection: selection(t, nil, tc.want.Methods[1:])}, filesOf(tc.files...))
			mustBuild(t, BuildOptions{Overlay: []Override{
				{Match: tc.want.Methods[0], Options: &configv1.ToolOptions{Name: "another.name"}},
			}}, filesOf(tc.files...))
		})
	}
}

func TestProblemsWithOptionsStopTheBuildTogether(t *testing.T) {
	t.Parallel()
	yes := true
	_, err := Build([]*source.Loaded{loadFile(t, bufImage)}, BuildOptions{Overlay: []Override{
		{Match: "garden_keeper.name", Options: &configv1.ToolOptions{Name: "NoDots", Version: "1"}},
		{Match: "garden_keeper.talk", Options: &configv1.ToolOptions{ReadOnly: &yes, Destructive: &yes, TaskSupport: "maybe"}},
		{Match: "garden_keeper.put_crate", Options: &configv1.ToolOptions{
			Timeout: durationpb.New(-1), CacheTtl: durationpb.New(-1), TaskAfter: durationpb.New(-1)}},
		{Match: "[", Options: &configv1.ToolOptions{}},
	}})
	got := asError[*BuildError](t, err)
	if len(got.Problems) != 4 {
		t.Fatalf("%d problems, want 4: %v", len(got.Problems), got.Problems)
	}
	for _, word := range []string{
		"garden.v1.GardenKeeper/Name", "name: ", "version: ", "garden.v1.GardenKeeper/Talk", "read-only and destructive",
		"task_support", "timeout", "cache_ttl", "task_after", "overlay entry [",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not speak of %q: %v", word, err)
		}
	}
}

func TestAnErrorOfManyFaultsSaysTen(t *testing.T) {
	t.Parallel()
	err := &BuildError{}
	for i := range 30 {
		err.Problems = append(err.Problems, Problem{fmt.Sprintf("p%d", i), "is wrong"})
	}
	if got := err.Error(); !strings.Contains(got, "p9: is wrong; and 20 more") || strings.Contains(got, "p10") {
		t.Errorf("error %q", got)
	}
}

func TestAnUndecodableOptionIsNoLicence(t *testing.T) {
	t.Parallel()
	// Ours is defined in the set, and what is under its number is not decodable: it may have said "destructive".
	own := loadFile(t, bufImage)
	f := rpcFile("x.proto", "x", "S/M")
	f.Service[0].Method[0].Options = &descriptorpb.MethodOptions{}
	f.GetService()[0].GetMethod()[0].GetOptions().ProtoReflect().SetUnknown([]byte{0xea, 0xe1, 0x18, 0x02, 0x08, 0xff}) // 50717, two bytes: half a varint
	with := &source.Loaded{Source: "test", Files: append(slices.Clone(own.Files), f), Imported: own.Imported}
	_, err := Build([]*source.Loaded{with}, BuildOptions{})
	if got := asError[*BuildError](t, err); len(got.Problems) != 1 || got.Problems[0].Subject != "x.S/M" {
		t.Errorf("problems %v", got.Problems)
	}
	// Somebody else's option under that number, in a set that does not define ours, is none of our business.
	tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(f)), "s.m")
	if tool.Hidden || tool.Metadata.Destructive {
		t.Error("a foreign option was taken for ours")
	}
	// And leaving the method out is a way out.
	mustBuild(t, BuildOptions{Selection: selection(t, nil, []string{"x.S/M"})}, with)
}

func TestEmptyCatalogIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		load *source.Loaded
		o    BuildOptions
		want string
	}{
		{"no services", filesOf(rpcFile("a.proto", "a")), BuildOptions{}, "no source has a service"},
		{"all excluded", filesOf(rpcFile("a.proto", "a", "S/M")), BuildOptions{Selection: selection(t, nil, []string{"s.*"})}, "omit 1 of 1"},
		{"none included", filesOf(rpcFile("a.proto", "a", "S/M")), BuildOptions{Selection: selection(t, []string{"b.*"}, nil)}, "omit 1 of 1"},
		{"none included, for certain", filesOf(rpcFile("a.proto", "a", "S/M")), BuildOptions{Selection: selection(t, []string{"b.S/*"}, nil)}, "a.S is infrastructure, excluded or only imported"},
		{"infrastructure only", filesOf(rpcFile("a.proto", "grpc.health.v1", "Health/Check")), BuildOptions{}, "grpc.health.v1.Health is infrastructure"},
		{"imports only", &source.Loaded{Files: []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a", "S/M")}, Imported: []string{"a.proto"}},
			BuildOptions{}, "a.S is infrastructure, excluded or only imported (--include"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Build([]*source.Loaded{tc.load}, tc.o)
			if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want ErrEmpty with %q", err, tc.want)
			}
		})
	}
}

func TestInfrastructureComesInByName(t *testing.T) {
	t.Parallel()
	load := filesOf(rpcFile("h.proto", "grpc.health.v1", "Health/Check", "Health/Watch"), rpcFile("a.proto", "a", "S/M"))
	for _, include := range []string{"grpc.health.v1.Health", "/grpc.health.v1.Health/Check", "grpc.health.v1.Health/*"} {
		c := mustBuild(t, BuildOptions{Selection: selection(t, []string{include}, nil)}, load)
		toolOf(t, c, "health.check")
	}
	if c := mustBuild(t, BuildOptions{Selection: selection(t, []string{"*"}, nil)}, load); !slices.Equal(namesOf(c), []string{"s.m"}) {
		t.Errorf("--include '*' takes %v, want infrastructure to stay out", namesOf(c))
	}
}

func TestTooManyToolsAreAnError(t *testing.T) {
	t.Parallel()
	load := filesOf(rpcFile("a.proto", "a", "S/A", "S/B", "S/C"))
	mustBuild(t, BuildOptions{Limits: Limits{MaxTools: 3}}, load)
	_, err := Build([]*source.Loaded{load}, BuildOptions{Limits: Limits{MaxTools: 2}})
	asError[*BuildError](t, err)
}

func TestTextLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("wörter ", 100) // 800 bytes, which the option itself admits
	c := mustBuild(t, BuildOptions{
		Limits:  Limits{MaxTitleRunes: 20, MaxDescriptionBytes: 50},
		Overlay: []Override{{Match: "*", Options: &configv1.ToolOptions{Title: long, Description: long}}},
	}, filesOf(rpcFile("a.proto", "a", "S/M")))
	tool := toolOf(t, c, "s.m")
	if tool.Title != "wörter wörter…" {
		t.Errorf("title %q", tool.Title)
	}
	if len(tool.Description) > 50 || !strings.HasSuffix(tool.Description, "…") || !hasWarning(c, "truncated to 50 bytes") {
		t.Errorf("description of %d bytes: %q, warnings %v", len(tool.Description), tool.Description, c.Warnings())
	}
	load := filesOf(rpcFile("a.proto", "a", "S/M", "S/"+strings.Repeat("m", 100)))
	c = mustBuild(t, BuildOptions{Limits: Limits{MaxNameBytes: 50}}, load)
	if !slices.Equal(namesOf(c), []string{"s.m"}) || !hasWarning(c, "its name has 102 bytes") {
		t.Errorf("tools %v, warnings %v", namesOf(c), c.Warnings())
	}
}
