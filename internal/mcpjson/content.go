// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"reflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendContent appends content blocks as a JSON array, [] if there are none.
func AppendContent(dst []byte, blocks []*outriggerv1.ContentBlock, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	array(&w, "content", blocks)
	return w.done()
}

// AppendContents appends the contents of resources/read as a JSON array. It has at
// least one element: a resource that does not exist is an error, never an empty array
// (MCP 2026-07-28, resources).
func AppendContents(dst []byte, contents []*outriggerv1.ResourceContents) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	if len(contents) == 0 {
		w.failIn("contents", "Give at least one part; a resource that does not exist is an error.")
	}
	array(&w, "contents", contents)
	return w.done()
}

// AppendPromptMessages appends the messages of prompts/get as a JSON array.
func AppendPromptMessages(dst []byte, messages []*outriggerv1.PromptMessage, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	array(&w, "messages", messages)
	return w.done()
}

// linkText appends the text block that stands for a resource link.
func (w *writer) linkText(wrapper reflect.Value) {
	l, _ := reflect.TypeAssert[*outriggerv1.ResourceLink](wrapper.Field(0))
	w.enter("resource_link")
	w.require("uri", l.GetUri())
	w.require("name", l.GetName())
	w.leave()
	text := l.GetTitle()
	if text == "" {
		text = l.GetName()
	}
	text += ": " + l.GetUri()
	if l.GetDescription() != "" {
		text += "\n" + l.GetDescription()
	}
	w.raw(`"type":"text","text":`)
	w.quote(text)
}
