// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestNotifications: each kind of change has a notification that the contract admits.
func TestNotifications(t *testing.T) {
	t.Parallel()
	task := &outriggerv1.Task{TaskId: "t-1"}
	for _, tc := range []struct {
		change Change
		want   string
	}{
		{Change{Kind: ToolsListChanged}, `{"method":"notifications/tools/list_changed"}`},
		{Change{Kind: PromptsListChanged}, `{"method":"notifications/prompts/list_changed"}`},
		{Change{Kind: ResourcesListChanged}, `{"method":"notifications/resources/list_changed"}`},
		{Change{Kind: ResourceUpdated, URI: `a:"b"`}, `{"method":"notifications/resources/updated","params_json":"eyJ1cmkiOiJhOlwiYlwiIn0="}`},
		{Change{Kind: TaskChanged, Task: task}, `{"method":"notifications/tasks","task":{"task_id":"t-1"}}`},
	} {
		checkNotification(t, tc.change.Kind.String(), tc.change.Notification(), tc.want)
	}
	checkNotification(t, "acknowledgement", Acknowledgement(&outriggerv1.ChangeFilter{ToolsListChanged: true}),
		`{"method":"notifications/subscriptions/acknowledged","acknowledged":{"tools_list_changed":true}}`)
	if n := new(Change).Notification(); n != nil {
		t.Errorf("no kind: %v", n)
	}
}

func checkNotification(t *testing.T, name string, got *outriggerv1.Notification, want string) {
	t.Helper()
	message := new(outriggerv1.Notification)
	if err := protojson.Unmarshal([]byte(want), message); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, message) {
		t.Errorf("%s: got %v, want %v", name, got, message)
	}
	if got.GetTask() == nil { // a task has its own rules
		if err := protovalidate.Validate(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
