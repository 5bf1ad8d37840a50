// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// AnyOther stands for all values of an attribute beyond the first ones, except that of a
// tool, which is [Other]. OpenTelemetry's conventions use it for values that are not known.
const AnyOther = "_OTHER"

// Bounds of the series of MCP requests. There are as many methods, revisions and codes in the
// contract as fit several times; tools have the bound of [New].
const (
	maxMethods    = 64
	maxVersions   = 16
	maxTransports = 8
	maxErrorTypes = 64
	maxStatuses   = 64
	// seriesPerTool is how many series there may be for each tool that has its own: success
	// and three kinds of errors, or two eras with one each.
	seriesPerTool = 4
	// spareSeries are for the methods and errors of all the tools beyond.
	spareSeries = 256
)

// MCPRequest is a finished request as OpenTelemetry's conventions for MCP describe it. A text
// that is empty is an attribute that the request does not have.
type MCPRequest struct {
	// Tool is the series of the tool of a call, and nil for other requests.
	Tool *Series
	// Method is the name of the operation, such as "tools/call".
	Method string
	// Version is the revision of the protocol. Transport is that of [Edge.Transport].
	Version, Transport string
	// ErrorType is empty for success, and for errors that are the caller's own. Status is the
	// code of the error in the caller's protocol.
	ErrorType, Status string
	Took              time.Duration
	// Trace is the request's span, if it is sampled.
	Trace Trace
}

// mcpKey are the attributes of a series of MCP requests.
type mcpKey struct {
	tool                                          *Series
	method, version, transport, errorType, status string
}

// EndMCP counts the end of an MCP request, beside what counts it in its own series. It
// allocates nothing once a combination of attributes has been seen.
func (t *Stats) EndMCP(r MCPRequest) {
	if t == nil {
		return
	}
	key := mcpKey{r.Tool, r.Method, r.Version, r.Transport, r.ErrorType, r.Status}
	if r.Tool == nil {
		t.mcp.of(key).add(mcpBounds[:], r.Took, r.Trace)
		return
	}
	usual := r.Tool.usual.Load()
	if usual == nil || usual.key != key {
		took := t.mcp.of(key)
		if usual == nil {
			r.Tool.usual.CompareAndSwap(nil, &usualEnd{key.clone(), took})
		}
		took.add(mcpBounds[:], r.Took, r.Trace)
		return
	}
	usual.took.add(mcpBounds[:], r.Took, r.Trace)
}

// usualEnd is where the calls of a tool are counted that end as its first one did, which most do. To compare a key takes a
// fraction of the time of looking it up.
type usualEnd struct {
	key  mcpKey
	took *histogram
}

// clone copies the texts, which may be part of a message.
func (k mcpKey) clone() mcpKey {
	for _, text := range []*string{&k.method, &k.version, &k.transport, &k.errorType, &k.status} {
		*text = strings.Clone(*text)
	}
	return k
}

// newMCP returns the family of MCP requests.
func newMCP(tools int, other *Series) *family[mcpKey] {
	methods, versions, transports := newNames(maxMethods), newNames(maxVersions), newNames(maxTransports)
	errorTypes, statuses := newNames(maxErrorTypes), newNames(maxStatuses)
	return newFamily(func(k mcpKey, series int) mcpKey {
		if series >= tools*seriesPerTool+spareSeries {
			return mcpKey{method: AnyOther}
		}
		k.method, k.version, k.transport = methods.bound(k.method), versions.bound(k.version), transports.bound(k.transport)
		k.errorType, k.status = errorTypes.bound(k.errorType), statuses.bound(k.status)
		if series >= tools*seriesPerTool && k.tool != nil {
			k.tool = other
		}
		return k
	})
}

// MCPNumbers are the numbers of the MCP requests with the same attributes.
type MCPNumbers struct {
	// IsToolCall is set for calls; Tool is the canonical name of their tool, empty if there
	// is no such tool.
	IsToolCall                                          bool
	Tool, Method, Version, Transport, ErrorType, Status string
	Took                                                Histogram
}

func (t *Stats) mcpNumbers() []MCPNumbers {
	var out []MCPNumbers
	for k, h := range t.mcp.all() {
		n := MCPNumbers{
			IsToolCall: k.tool != nil, Method: k.method, Version: k.version, Transport: k.transport,
			ErrorType: k.errorType, Status: k.status, Took: h.snapshot(mcpBounds[:]),
		}
		if k.tool != nil {
			n.Tool = k.tool.name
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b MCPNumbers) int {
		return cmp.Or(strings.Compare(a.Method, b.Method), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Version, b.Version),
			strings.Compare(a.Transport, b.Transport), strings.Compare(a.ErrorType, b.ErrorType), strings.Compare(a.Status, b.Status))
	})
	return out
}
