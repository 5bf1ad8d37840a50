// SPDX-License-Identifier: Apache-2.0

package feed

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Methods of the notifications of a change feed, as defined by the contract
// (outrigger.v1.Notification; the same as in MCP 2026-07-28, subscriptions).
const (
	MethodAcknowledged     = "notifications/subscriptions/acknowledged"
	MethodToolsChanged     = "notifications/tools/list_changed"
	MethodPromptsChanged   = "notifications/prompts/list_changed"
	MethodResourcesChanged = "notifications/resources/list_changed"
	MethodResourceUpdated  = "notifications/resources/updated"
	MethodTaskChanged      = "notifications/tasks"
)

// Acknowledgement returns the first notification of a change feed. It says which of the
// requested changes will be reported.
func Acknowledgement(honoured *outriggerv1.ChangeFilter) *outriggerv1.Notification {
	return &outriggerv1.Notification{
		Method:     MethodAcknowledged,
		ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: honoured},
	}
}

// Notification returns the change as a notification of the contract, or nil for a change
// of unknown kind. It shares the task of the change.
func (c *Change) Notification() *outriggerv1.Notification {
	switch c.Kind {
	case ToolsListChanged:
		return &outriggerv1.Notification{Method: MethodToolsChanged}
	case PromptsListChanged:
		return &outriggerv1.Notification{Method: MethodPromptsChanged}
	case ResourcesListChanged:
		return &outriggerv1.Notification{Method: MethodResourcesChanged}
	case ResourceUpdated:
		return &outriggerv1.Notification{
			Method:     MethodResourceUpdated,
			ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: append(jsontext.AppendString([]byte(`{"uri":`), c.URI), '}')},
		}
	case TaskChanged:
		return &outriggerv1.Notification{Method: MethodTaskChanged, ParamsForm: &outriggerv1.Notification_Task{Task: c.Task}}
	}
	return nil
}
