// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// studio is the catalog of a service with operations, whose source offers google.longrunning.Operations too.
func studio(t *testing.T, o catalog.BuildOptions, services ...string) *catalog.Catalog {
	t.Helper()
	if services == nil {
		services = []string{operationtest.Service, "google.longrunning.Operations"}
	}
	load, err := source.NewDescriptors("studio", operationtest.Files(t), services...).Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Build([]*source.Loaded{load}, o)
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

func names(tools []*catalog.Tool) []string {
	var out []string
	for _, tool := range tools {
		out = append(out, tool.Name)
	}
	return out
}

func TestOperationsAreRecognised(t *testing.T) {
	t.Parallel()
	cat := studio(t, catalog.BuildOptions{})
	want := []string{
		"studio.cancel_operation", "studio.get_operation", "studio.import_video", "studio.list_videos", "studio.move_video",
		"studio.publish_videos", "studio.render_video", "studio.schedule_video",
	}
	if diff := cmp.Diff(want, names(cat.Tools())); diff != "" {
		t.Fatalf("tools (-want +got):\n%s", diff)
	}
	for name, types := range map[string][2]string{
		"studio.import_video":   {"studio.v1.Video", "studio.v1.ImportVideoMetadata"}, // relative to the package
		"studio.render_video":   {"studio.v1.Video", "google.protobuf.Struct"},        // in full
		"studio.schedule_video": {"google.protobuf.Timestamp", "studio.v1.ImportVideoMetadata"},
		"studio.publish_videos": {"", ""}, // known by its return type alone
		"studio.move_video":     {"", ""}, // the type is not there
	} {
		tool, _ := cat.Lookup(name)
		op := tool.Operation
		if op == nil {
			t.Errorf("%s starts no operation", name)
			continue
		}
		var got [2]string
		if op.Response != nil {
			got[0] = string(op.Response.Name)
		}
		if op.Metadata != nil {
			got[1] = string(op.Metadata.Name)
		}
		if got != types {
			t.Errorf("%s: types %q, want %q", name, got, types)
		}
		if tool.HasOutput() != (types[0] != "") || tool.TaskSupport != "optional" {
			t.Errorf("%s: has an output schema: %v; task support %q", name, tool.HasOutput(), tool.TaskSupport)
		}
		if op.GetTool == nil || op.GetTool.Name != "studio.get_operation" || op.CancelTool == nil || op.Get.Procedure != "/google.longrunning.Operations/GetOperation" {
			t.Errorf("%s: followed by %+v", name, op)
		}
	}
	plain, _ := cat.Lookup("studio.list_videos")
	if plain.Operation != nil || plain.TaskSupport != "forbidden" {
		t.Errorf("a plain RPC starts operations: %+v", plain)
	}
	if !slices.ContainsFunc(cat.Warnings(), func(w source.Warning) bool {
		return strings.Contains(w.Subject, "MoveVideo") && strings.Contains(w.Text, `response_type "NoSuchMessage"`)
	}) {
		t.Errorf("no warning of the missing type: %v", cat.Warnings())
	}
	if !cat.HasOperations() {
		t.Error("the catalog has no operations")
	}
}

// The schema is that of the response, and admits an operation that has not ended: then nothing else is there.
func TestTheSchemaOfAnOperation(t *testing.T) {
	t.Parallel()
	cat := studio(t, catalog.BuildOptions{})
	for name, want := range map[string][]string{
		"studio.import_video":   {"name", "outrigger_operation", "seconds"},
		"studio.schedule_video": {"outrigger_operation", "value"},
	} {
		tool, _ := cat.Lookup(name)
		for form, raw := range map[string][]byte{"advertised": tool.Output.Advertised(), "canonical": tool.Output.Canonical()} {
			if form == "canonical" && tool.OutputNotObject {
				continue // of the bare value
			}
			var schema struct {
				Type       string                     `json:"type"`
				Properties map[string]json.RawMessage `json:"properties"`
				Required   []string                   `json:"required"`
			}
			if err := json.Unmarshal(raw, &schema); err != nil {
				t.Fatalf("%s: %v: %s", name, err, raw)
			}
			var got []string
			for property := range schema.Properties {
				got = append(got, property)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || schema.Type != "object" || schema.Required != nil {
				t.Errorf("%s, %s: %s", name, form, raw)
			}
		}
	}
}

func TestOperationsOfTypedCallers(t *testing.T) {
	t.Parallel()
	const get = "/google.longrunning.Operations/GetOperation"
	for _, tc := range []struct {
		name     string
		services []string
		include  []string
		want     bool
	}{
		{name: "where the source offers them", want: true},
		{name: "where it does not", services: []string{operationtest.Service}},
		{name: "where a glob leaves them out", include: []string{operationtest.Service}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			selection, err := catalog.NewSelection(tc.include, nil)
			if err != nil {
				t.Fatal(err)
			}
			cat := studio(t, catalog.BuildOptions{Selection: selection}, tc.services...)
			if _, ok := cat.ByProcedure(get); ok != tc.want {
				t.Errorf("a typed caller can reach %s: %v, want %v", get, ok, tc.want)
			}
			if _, ok := cat.Lookup("operations.get_operation"); ok {
				t.Error("it is a tool")
			}
			if _, ok := cat.Lookup("studio.get_operation"); !ok {
				t.Error("there is no tool to go on with operations")
			}
		})
	}
	selection, err := catalog.NewSelection([]string{"google.longrunning.Operations"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := studio(t, catalog.BuildOptions{Selection: selection}).Lookup("operations.get_operation"); !ok {
		t.Error("included by its name, the service makes no tools")
	}
}

// The tools that go on with operations take no name from anyone, can be left out, and are there only beside operations.
func TestToolsThatGoOnWithOperations(t *testing.T) {
	t.Parallel()
	yes, no := true, "videos.await"
	for _, tc := range []struct {
		name    string
		exclude []string
		overlay []catalog.Override
		want    []string
	}{
		{"excluded", []string{"studio.cancel_operation"}, nil, []string{"studio.get_operation"}},
		{"hidden", nil, []catalog.Override{{Match: "studio.get_operation", Options: &configv1.ToolOptions{Hidden: &yes}}}, []string{"studio.cancel_operation"}},
		{"named", nil, []catalog.Override{{Match: operationtest.Service + "/GetOperation", Options: &configv1.ToolOptions{Name: no}}}, []string{"studio.cancel_operation", no}},
		{"beside tools of their names", nil, []catalog.Override{
			{Match: "studio.list_videos", Options: &configv1.ToolOptions{Name: "studio.get_operation"}},
		}, []string{"studio.cancel_operation", "studio.get_running_operation"}},
		{"without operations", []string{"studio.*_video", "studio.publish_videos"}, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			selection, err := catalog.NewSelection(nil, tc.exclude)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range studio(t, catalog.BuildOptions{Selection: selection, Overlay: tc.overlay}).Tools() {
				if tool.Continues != catalog.NoContinuation {
					got = append(got, tool.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
