// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// Features is what is offered with one catalog: exactly what answers. What is
// not offered is answered METHOD_NOT_FOUND, as if it did not exist.
type Features struct {
	Resources, ResourcesSubscribe bool
	Prompts, PromptsChanged       bool
	Completions, Logging, Tasks   bool
}

// featureCache keeps what was worked out for the newest catalog.
type featureCache struct {
	newest atomic.Pointer[offered]
}

type offered struct {
	catalog  *catalog.Catalog
	features Features
}

// Features works out what is offered; nil offers tools alone.
func (b *Bridge) Features(cat *catalog.Catalog) Features {
	if cat == nil {
		return Features{}
	}
	if o := b.offers.newest.Load(); o != nil && o.catalog == cat {
		return o.features
	}
	native := cat.Description().GetCapabilities()
	f := Features{
		Resources:          native.GetResources() != nil || !cat.Resources().IsEmpty(),
		ResourcesSubscribe: native.GetResources().GetSubscribe(),
		Prompts:            native.GetPrompts() != nil,
		PromptsChanged:     native.GetPrompts().GetListChanged(),
		Completions:        native.GetCompletions(),
		Logging:            native.GetLogging(),
		Tasks:              native.GetTasks() || b.mayBecomeTasks(cat),
	}
	b.offers.newest.Store(&offered{catalog: cat, features: f})
	return f
}

// mayBecomeTasks reports whether a plain RPC behind a visible tool may run on as
// a task.
func (b *Bridge) mayBecomeTasks(cat *catalog.Catalog) bool {
	for _, tool := range cat.Tools() {
		if _, ok := b.taskAfter(tool); ok && !tool.Native {
			return true
		}
	}
	return false
}

// taskAfter is after how long a call of a tool runs on as a task; false where it
// never does. What the tool says comes before the sidecar's setting.
func (b *Bridge) taskAfter(tool *catalog.Tool) (time.Duration, bool) {
	switch {
	case b.opts.Tasks == nil:
		return 0, false
	case tool.TaskSupport == taskOptional, tool.TaskSupport == taskRequired:
		return tool.TaskAfter, true
	case tool.TaskUnsaid && b.opts.TaskAfter > 0:
		return b.opts.TaskAfter, true
	}
	return 0, false
}

// Values of ToolOptions.task_support.
const (
	taskOptional = "optional"
	taskRequired = "required"
)

// NotOffered is the error for an operation that nothing here answers.
func NotOffered(what string) *errmap.Error {
	return errmap.Because(errmap.MethodNotFound, what+" are not offered here; server/discover says what is")
}
