// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Kind is the kind of a change.
type Kind uint8

// The kinds of changes. The zero Kind is invalid.
const (
	// ToolsListChanged means that the list of tools changed.
	ToolsListChanged Kind = iota + 1
	// PromptsListChanged means that the list of prompts changed.
	PromptsListChanged
	// ResourcesListChanged means that the list of resources, or that of resource
	// templates, changed.
	ResourcesListChanged
	// ResourceUpdated means that the contents of one resource changed.
	ResourceUpdated
	// TaskChanged means that one task changed.
	TaskChanged
)

// String returns a name for logs and errors.
func (k Kind) String() string {
	switch k {
	case ToolsListChanged:
		return "tools list changed"
	case PromptsListChanged:
		return "prompts list changed"
	case ResourcesListChanged:
		return "resources list changed"
	case ResourceUpdated:
		return "resource updated"
	case TaskChanged:
		return "task changed"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// isList reports whether changes of the kind are about nothing but a list.
func (k Kind) isList() bool { return ToolsListChanged <= k && k <= ResourcesListChanged }

// Limits of the names in changes and filters.
const (
	// MaxURIBytes is the maximum length of a resource URI, as Resource.uri and
	// ChangeFilter.resource_uris of the contract outrigger.v1 allow.
	MaxURIBytes = 8192
	// MaxTaskIDBytes is the maximum length of a task id: the 256 bytes of Task.task_id in
	// the contract outrigger.v1, with room for the sealed form that callers get.
	MaxTaskIDBytes = 1024
)

// Change reports that something changed. Fields that do not belong to its kind are zero.
type Change struct {
	Kind Kind
	// URI is the URI of the resource, for ResourceUpdated, of at most [MaxURIBytes]. It
	// may be below the URI in a subscriber's filter.
	URI string
	// Scope, for ResourceUpdated, restricts the change to those who subscribe with this
	// scope, by [Filter.Scoped]. Readers do not get it.
	Scope string
	// Task is the current task, for TaskChanged. Its id has at most [MaxTaskIDBytes].
	// Subscribers share it, so it must not change once it is published.
	Task *outriggerv1.Task
	// Principal is the owner of the task, for TaskChanged. It is empty if callers are not
	// distinguished. Other callers do not see the change.
	Principal string
}

// ChangeError reports a change with missing or unexpected fields.
type ChangeError struct {
	Kind   Kind
	Reason string
}

// Error implements error.
func (e *ChangeError) Error() string { return fmt.Sprintf("feed: %s: %s", e.Kind, e.Reason) }

// check refuses what could not be delivered, and what would be delivered
// otherwise than meant: a principal does not hide an updated resource.
func (c *Change) check() error {
	fault := ""
	switch {
	case c.Kind < ToolsListChanged || c.Kind > TaskChanged:
		fault = "there is no such kind"
	case c.Kind != ResourceUpdated && c.URI != "":
		fault = "only an updated resource has a URI"
	case c.Kind != ResourceUpdated && c.Scope != "":
		fault = "only an updated resource has a scope"
	case c.Kind != TaskChanged && c.Task != nil:
		fault = "only a changed task has a task"
	case c.Kind != TaskChanged && c.Principal != "":
		fault = "only a task belongs to a principal"
	case c.Kind == ResourceUpdated && c.URI == "":
		fault = "it does not say which: set its URI"
	case len(c.URI) > MaxURIBytes:
		fault = fmt.Sprintf("its URI has %d bytes, over the limit of %d", len(c.URI), MaxURIBytes)
	case c.Kind == TaskChanged && c.Task.GetTaskId() == "":
		fault = "it does not say which: set its task, with an id"
	case len(c.Task.GetTaskId()) > MaxTaskIDBytes:
		fault = fmt.Sprintf("its task's id has %d bytes, over the limit of %d", len(c.Task.GetTaskId()), MaxTaskIDBytes)
	}
	if fault != "" {
		return &ChangeError{Kind: c.Kind, Reason: fault}
	}
	return nil
}
