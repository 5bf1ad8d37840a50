// SPDX-License-Identifier: Apache-2.0

package keys

import "testing"

// TestLabelsStay: what was sealed by an older replica can be opened by a newer one.
func TestLabelsStay(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		"call_tool": "tools/call", "list_tools": "tools/list", "list_resources": "resources/list",
		"list_resource_templates": "resources/templates/list", "read_resource": "resources/read",
		"list_prompts": "prompts/list", "get_prompt": "prompts/get", "another": "another",
	} {
		if got := string(Label(operation)); got != want {
			t.Errorf("%s: %q, want %q", operation, got, want)
		}
	}
}
