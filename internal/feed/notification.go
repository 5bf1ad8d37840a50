// SPDX-License-Identifier: Apache-2.0

package feed

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Methods of the notifications of a change feed, as the contract has them
// (outrigger.v1.Notification; the same as in MCP 2026-07-28, subscriptions).
const (
	MethodAcknowledged     = "notifications/subscriptions/acknowledged"
	MethodToolsChanged     = "notifications/tools/list_changed"
	MethodPromptsChanged   = "notifications/prompts/list_changed"
	MethodResourcesChanged = "notifications/resources/list_changed"
	MethodResourceUpdated  = "notifications/resources/updated"
	MethodTaskChanged      = "notifications/tasks"
)

// Acknowledgement is the first notification of a change feed: which of the wanted
// changes will be reported.
func Acknowledgement(honoured *outriggerv1.ChangeFilter) *outriggerv1.Notification {
	return &outriggerv1.Notification{
		Method:     MethodAcknowledged,
		ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: honoured},
	}
}

// Notification is the change in the words of the contract; nil for a change of no
// known kind. The task in it is the change's own.
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
