// SPDX-License-Identifier: Apache-2.0

package content

import (
	"slices"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestPlans: the plans fit the messages, and each exception a field of them.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, fault := range compiled().faults {
		t.Error(fault)
	}
	known := exceptions()
	known["Tool.no_such_field"] = exception{}
	if faults := compile(known).faults; !slices.Equal(faults, []string{"Tool.no_such_field is no field"}) {
		t.Errorf("the faults are %q", faults)
	}
}

// TestMemberNames: the names of members come from the fields, except for MCP's own.
func TestMemberNames(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"uri": "uri", "mime_type": "mimeType", "meta": "_meta", "size": "size",
	} {
		if got := planOf(new(outriggerv1.Resource)).field(field); got == nil || got.name != want {
			t.Errorf("%s is %v, want %s", field, got, want)
		}
	}
	if got := planOf(new(outriggerv1.ChangeFilter)).field("resource_uris").name; got != "resourceSubscriptions" {
		t.Errorf("resource_uris is %s", got)
	}
	if planOf(new(outriggerv1.Tool)).field("fingerprint") != nil {
		t.Error("MCP shows the fingerprint of a tool")
	}
	if got := planOf(new(outriggerv1.Task)).field("status").enum; !slices.Equal(got, []string{"", "working", "input_required", "completed", "failed", "cancelled"}) {
		t.Errorf("the words of a task's status are %q", got)
	}
}
