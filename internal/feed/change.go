// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Kind is what a change is about.
type Kind uint8

// The kinds of changes. The zero Kind is none.
const (
	// ToolsListChanged: the list of tools.
	ToolsListChanged Kind = iota + 1
	// PromptsListChanged: the list of prompts.
	PromptsListChanged
	// ResourcesListChanged: the list of resources, or that of resource templates.
	ResourcesListChanged
	// ResourceUpdated: the contents of one resource.
	ResourceUpdated
	// TaskChanged: one task.
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

// Bounds of what a change names and a filter asks for.
const (
	// MaxURIBytes is the longest URI of a resource: what Resource.uri and
	// ChangeFilter.resource_uris of the contract outrigger.v1 admit.
	MaxURIBytes = 8192
	// MaxTaskIDBytes is the longest task id: the 256 bytes of Task.task_id in the
	// contract outrigger.v1, with room for being sealed towards callers.
	MaxTaskIDBytes = 1024
)

// Change says that something is different now. What its kind does not name below
// stays zero.
type Change struct {
	Kind Kind
	// URI of the resource, with ResourceUpdated: at most [MaxURIBytes]. It may be
	// below the one that a subscriber named.
	URI string
	// Task as it is now, with TaskChanged; its id has at most [MaxTaskIDBytes].
	// Subscribers share it: it must not change once it is published.
	Task *outriggerv1.Task
	// Principal is who the task belongs to, with TaskChanged; empty where callers
	// are not told apart. Other callers do not see the change.
	Principal string
}

// ChangeError refuses a change that says too little or too much.
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
