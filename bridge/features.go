// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// features is what is offered with one catalog: exactly what answers. What is
// not offered is answered METHOD_NOT_FOUND, as if it did not exist.
type features struct {
	resources, resourcesSubscribe bool
	prompts, promptsChanged       bool
	completions, logging, tasks   bool
}

// featureCache keeps what was worked out for the newest catalog.
type featureCache struct {
	newest atomic.Pointer[offered]
}

type offered struct {
	catalog  *catalog.Catalog
	features features
}

// features works out what is offered; nil offers tools alone.
func (b *Bridge) features(cat *catalog.Catalog) features {
	if cat == nil {
		return features{}
	}
	if o := b.offers.newest.Load(); o != nil && o.catalog == cat {
		return o.features
	}
	native := cat.Description().GetCapabilities()
	f := features{
		resources:          native.GetResources() != nil || !cat.Resources().IsEmpty(),
		resourcesSubscribe: native.GetResources().GetSubscribe(),
		prompts:            native.GetPrompts() != nil,
		promptsChanged:     native.GetPrompts().GetListChanged(),
		completions:        native.GetCompletions(),
		logging:            native.GetLogging(),
		tasks:              native.GetTasks() || b.mayBecomeTasks(cat),
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

// notOffered is the error for an operation that nothing here answers.
func notOffered(what string) *errmap.Error {
	return because(errmap.MethodNotFound, what+" are not offered here; server/discover says what is")
}

// appendMCPCapabilities appends what MCP calls the server's capabilities. The
// tasks extension exists in the modern era alone.
func (f features) appendMCPCapabilities(dst []byte, isModern bool) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	if f.resources {
		dst = append(dst, `,"resources":{"listChanged":true`...)
		if f.resourcesSubscribe {
			dst = append(dst, `,"subscribe":true`...)
		}
		dst = append(dst, '}')
	}
	if f.prompts {
		dst = append(dst, `,"prompts":{`...)
		if f.promptsChanged {
			dst = append(dst, `"listChanged":true`...)
		}
		dst = append(dst, '}')
	}
	if f.completions {
		dst = append(dst, `,"completions":{}`...)
	}
	if f.logging {
		dst = append(dst, `,"logging":{}`...)
	}
	if f.tasks && isModern {
		dst = append(dst, `,"extensions":{"`+tasksExtension+`":{}}`...)
	}
	return append(dst, '}')
}

// tasksExtension is MCP's identifier of the tasks extension.
const tasksExtension = "io.modelcontextprotocol/tasks"
