// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendContent appends content blocks as a JSON array, [] where there are none.
func AppendContent(dst []byte, blocks []*outriggerv1.ContentBlock, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	list(&w, "content", blocks, (*writer).block)
	return w.done()
}

// block appends one content block.
func (w *writer) block(b *outriggerv1.ContentBlock) {
	w.raw("{")
	switch block := b.GetBlock().(type) {
	case *outriggerv1.ContentBlock_Text:
		w.textBlock(block.Text)
	case *outriggerv1.ContentBlock_Image:
		w.mediaBlock("image", block.Image)
	case *outriggerv1.ContentBlock_Audio:
		w.mediaBlock("audio", block.Audio)
	case *outriggerv1.ContentBlock_ResourceLink:
		w.enter("resource_link")
		w.link(block.ResourceLink)
		w.leave()
	case *outriggerv1.ContentBlock_Resource:
		w.raw(`"type":"resource","resource":`)
		w.enter("resource")
		w.enter("contents")
		w.contents(block.Resource.GetContents())
		w.leave()
		w.leave()
	default:
		w.fail("Set what the block is.")
	}
	w.annotations(b.GetAnnotations())
	w.object("_meta", "meta", b.GetMetaJson(), b.GetMeta())
	w.raw("}")
}

func (w *writer) textBlock(t *outriggerv1.TextContent) {
	w.raw(`"type":"text","text":`)
	w.quote(t.GetText())
}

// media is what a picture and a recording have in common.
type media interface {
	GetData() []byte
	GetMimeType() string
}

func (w *writer) mediaBlock(kind string, m media) {
	w.member("type")
	w.quote(kind)
	w.enter(kind)
	if len(m.GetData()) == 0 {
		w.failIn("data", "MCP requires it; give the file's bytes.")
	}
	w.bytes("data", m.GetData())
	w.need("mimeType", "mime_type", m.GetMimeType())
	w.leave()
}

// link appends the members of a resource link, or of the text that stands for one.
func (w *writer) link(l *outriggerv1.ResourceLink) {
	if !w.rev.hasResourceLinks() {
		w.require("uri", l.GetUri())
		w.require("name", l.GetName())
		w.raw(`"type":"text","text":`)
		w.quote(linkText(l))
		return
	}
	w.raw(`"type":"resource_link"`)
	w.need("uri", "uri", l.GetUri())
	w.named(l)
	w.text("mimeType", l.GetMimeType())
	if l != nil {
		w.size(l.Size)
	}
	w.icons(l.GetIcons())
}

// linkText says in words what a resource link says.
func linkText(l *outriggerv1.ResourceLink) string {
	text := l.GetTitle()
	if text == "" {
		text = l.GetName()
	}
	text += ": " + l.GetUri()
	if l.GetDescription() != "" {
		text += "\n" + l.GetDescription()
	}
	return text
}

// named is what everything that is listed has in common.
type named interface {
	GetName() string
	GetTitle() string
	GetDescription() string
}

func (w *writer) named(n named) {
	w.need("name", "name", n.GetName())
	w.text("title", n.GetTitle())
	w.text("description", n.GetDescription())
}

func (w *writer) size(size *int64) {
	if size != nil {
		w.integer("size", *size)
	}
}

// contents appends what is in a resource.
func (w *writer) contents(c *outriggerv1.ResourceContents) {
	w.raw("{")
	w.need("uri", "uri", c.GetUri())
	w.text("mimeType", c.GetMimeType())
	switch data := c.GetData().(type) {
	case *outriggerv1.ResourceContents_Text:
		w.member("text")
		w.quote(data.Text)
	case *outriggerv1.ResourceContents_Blob:
		w.bytes("blob", data.Blob)
	default:
		w.fail("Set text or blob; either may be empty.")
	}
	w.object("_meta", "meta", c.GetMetaJson(), c.GetMeta())
	w.raw("}")
}

// annotations appends the hints about a piece of content, where there are any.
func (w *writer) annotations(a *outriggerv1.Annotations) {
	if a == nil {
		return
	}
	w.enter("annotations")
	w.member("annotations")
	w.raw("{")
	if len(a.GetAudience()) > 0 {
		w.member("audience")
		list(w, "audience", a.GetAudience(), (*writer).role)
	}
	w.fraction("priority", "priority", a.Priority)
	if a.GetLastModified() != nil {
		w.time("lastModified", "last_modified", a.GetLastModified())
	}
	w.raw("}")
	w.leave()
}

func (w *writer) role(r outriggerv1.Role) {
	switch r {
	case outriggerv1.Role_ROLE_USER:
		w.raw(`"user"`)
	case outriggerv1.Role_ROLE_ASSISTANT:
		w.raw(`"assistant"`)
	default:
		w.fail("Use one of the two roles, user or assistant.")
	}
}

// icons appends pictures, where there are any.
func (w *writer) icons(icons []*outriggerv1.Icon) {
	if len(icons) == 0 {
		return
	}
	w.member("icons")
	list(w, "icons", icons, (*writer).icon)
}

func (w *writer) icon(i *outriggerv1.Icon) {
	w.raw("{")
	w.need("src", "src", i.GetSrc())
	w.text("mimeType", i.GetMimeType())
	if len(i.GetSizes()) > 0 {
		w.texts("sizes", i.GetSizes())
	}
	w.oneOf("theme", "theme", i.GetTheme(), "light", "dark")
	w.raw("}")
}
