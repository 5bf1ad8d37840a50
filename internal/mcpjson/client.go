// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// tasksExtension is MCP's identifier of the tasks extension, which
// ClientCapabilities also has as a field of its own.
const tasksExtension = "io.modelcontextprotocol/tasks"

// AppendCapabilities appends a ClientCapabilities object, as clients declare it and
// as requiredCapabilities repeats it.
func AppendCapabilities(dst []byte, c *outriggerv1.ClientCapabilities) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	if e := c.GetElicitation(); e != nil {
		w.member("elicitation")
		w.raw("{")
		w.yes("form", e.GetForm())
		w.yes("url", e.GetUrl())
		w.raw("}")
	}
	if s := c.GetSampling(); s != nil {
		w.member("sampling")
		w.raw("{")
		w.yes("tools", s.GetTools())
		w.yes("context", s.GetContext())
		w.raw("}")
	}
	if r := c.GetRoots(); r != nil {
		w.member("roots")
		w.raw("{")
		w.flag("listChanged", r.GetListChanged())
		w.raw("}")
	}
	w.extensions(c)
	w.object("experimental", "experimental", c.GetExperimentalJson(), c.GetExperimental())
	w.raw("}")
	return w.done()
}

// yes appends MCP's way to say yes: an empty object.
func (w *writer) yes(name string, value bool) {
	if value {
		w.member(name)
		w.raw("{}")
	}
}

// extensions appends the extensions, and the one of tasks where only its own field
// says so.
func (w *writer) extensions(c *outriggerv1.ClientCapabilities) {
	if !w.object("extensions", "extensions", c.GetExtensionsJson(), c.GetExtensions()) {
		if c.GetTasks() {
			w.member("extensions")
			w.raw(`{"` + tasksExtension + `":{}}`)
		}
		return
	}
	if w.err != nil || !c.GetTasks() {
		return
	}
	written, _ := FreeForm(c.GetExtensionsJson(), c.GetExtensions())
	if _, ok := jsontext.Lookup(written, tasksExtension); !ok {
		w.dst = w.dst[:len(w.dst)-1] // the brace
		w.yes(tasksExtension, true)
		w.raw("}")
	}
}

// AppendImplementation appends an Implementation object: clientInfo or serverInfo.
func AppendImplementation(dst []byte, i *outriggerv1.Implementation) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	w.need("name", "name", i.GetName())
	w.need("version", "version", i.GetVersion())
	w.text("title", i.GetTitle())
	w.text("description", i.GetDescription())
	w.icons(i.GetIcons())
	w.text("websiteUrl", i.GetWebsiteUrl())
	w.raw("}")
	return w.done()
}

// ReadCapabilities reads a ClientCapabilities object. An elicitation that names no
// mode means forms; one that names only the URL does not. The extensions and the
// experimental capabilities keep their bytes. What a legacy revision makes of the
// declaration is Revision.Narrow.
func ReadCapabilities(raw []byte) (*outriggerv1.ClientCapabilities, error) {
	var r reader
	c := new(outriggerv1.ClientCapabilities)
	capabilities := r.whole(raw)
	if e, ok := r.object(capabilities, "elicitation"); ok {
		url := r.has(e, "elicitation", "url")
		c.Elicitation = &outriggerv1.ElicitationCapability{Form: r.has(e, "elicitation", "form") || !url, Url: url}
	}
	if s, ok := r.object(capabilities, "sampling"); ok {
		c.Sampling = &outriggerv1.SamplingCapability{
			Tools:   r.has(s, "sampling", "tools"),
			Context: r.has(s, "sampling", "context"),
		}
	}
	if roots, ok := r.object(capabilities, "roots"); ok {
		r.enter("roots")
		c.Roots = &outriggerv1.RootsCapability{ListChanged: r.flag(roots, "listChanged")}
		r.leave()
	}
	if extensions, ok := r.settings(capabilities, "extensions"); ok {
		c.Tasks = r.has(extensions, "extensions", tasksExtension)
		c.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: extensions}
	}
	if experimental, ok := r.settings(capabilities, "experimental"); ok {
		c.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: experimental}
	}
	if r.err != nil {
		return nil, r.err
	}
	return c, nil
}

// has reports whether a capability has this member, which must be an object.
func (r *reader) has(capability []byte, parent, name string) bool {
	r.enter(parent)
	defer r.leave()
	_, ok := r.object(capability, name)
	return ok
}

// settings reads a map of settings, of which the bytes are kept.
func (r *reader) settings(object []byte, name string) ([]byte, bool) {
	raw, ok := r.object(object, name)
	if ok && len(raw) > maxSettingsBytes {
		r.failIn(name, "Make it at most %d bytes long.", maxSettingsBytes)
	}
	return raw, ok
}

// ReadImplementation reads an Implementation object, such as clientInfo.
func ReadImplementation(raw []byte) (*outriggerv1.Implementation, error) {
	var r reader
	object := r.whole(raw)
	i := &outriggerv1.Implementation{
		Name:        r.need(object, "name", 1, maxWordBytes),
		Version:     r.need(object, "version", 0, maxWordBytes),
		Title:       r.text(object, "title", maxNameBytes),
		Description: r.text(object, "description", maxSentencesBytes),
		Icons:       r.icons(object),
		WebsiteUrl:  r.text(object, "websiteUrl", maxURIBytes),
	}
	if i.WebsiteUrl != "" && !isURI(i.WebsiteUrl) {
		r.failIn("websiteUrl", "Make it an absolute URI (RFC 3986).")
	}
	if r.err != nil {
		return nil, r.err
	}
	return i, nil
}
