// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
)

// resourceFault begins the text of a problem with resources.
const resourceFault = "option (outrigger.v1.resource) or overlay: "

// ResourceTool returns the tool of the RPC behind a method of Resources. Its In and Out do the transcoding. The tool may
// be hidden. The method must belong to this catalog.
func (c *Catalog) ResourceTool(m *resource.Method) *Tool { return c.derived[m.Procedure()] }

// asResource is what resources are made of.
func (t *Tool) asResource() resource.RPC {
	return resource.RPC{
		Procedure: t.Method.Procedure, Descriptor: t.Method.Descriptor,
		Name: t.Name, Title: t.Title, Description: t.Description, Icons: t.Icons,
		Destructive: t.Metadata.Destructive, HTTPBody: t.HTTPBody,
	}
}

// resource makes a source of resources of a tool's method, where its option or the overlay asks for that. What is wrong
// is a problem.
func (b *builder) resource(t *Tool, overlaid *configv1.ResourceOptions) {
	problem := func(err error) {
		b.problems = append(b.problems, Problem{t.Subject(), resourceFault + err.Error()})
	}
	var o *configv1.ResourceOptions
	if b.world.hasResourceOption {
		var err error
		if o, err = resource.ReadOption(t.Method.Descriptor); err != nil {
			problem(err)
			return
		}
	}
	if o = override(o, overlaid); o == nil {
		return
	}
	if err := b.contract.check(o); err != nil {
		problem(err)
		return
	}
	m, err := resource.New(t.asResource(), o)
	if err != nil {
		problem(err)
		return
	}
	// The rules of URIs in the contract are those that clients apply.
	if err := b.contract.check(&outriggerv1.Resource{Uri: m.Sample(), Name: t.Name}); err != nil {
		problem(fmt.Errorf("uri_template: %q, which it can make: %w", shown.Clip(m.Sample()), err))
		return
	}
	b.resources = append(b.resources, m)
}

// watch makes a resource of the newest message of a tool's stream, where its option or the overlay asks for that.
func (b *builder) watch(t *Tool, isAsked bool) {
	if !isAsked {
		return
	}
	rpc := t.asResource()
	rpc.HTTPBody = t.IsDocument()
	m, err := resource.NewWatch(rpc, t.checkExample)
	if err != nil {
		b.problems = append(b.problems, Problem{t.Subject(), "option (outrigger.v1.tool) or overlay: watch: " + err.Error()})
		return
	}
	t.Watch = m.URITemplate()
	if more := "\n\nThe newest message is also a resource that can be subscribed to: " + t.Watch; len(t.Description)+len(more) <= b.limits.MaxDescriptionBytes {
		t.Description += more
	}
	b.resources = append(b.resources, m)
}

// readable orders the methods that resources come from. Two that could both read one URI are a problem.
func (b *builder) readable() *resource.Set {
	set, ambiguous := resource.NewSet(b.resources)
	for _, a := range ambiguous {
		b.problems = append(b.problems, Problem{rpcName(a.Two), fmt.Sprintf(
			resourceFault+"%q can be the same URI as %q of %s, and neither is more specific; change one of them",
			a.Two.URITemplate(), a.One.URITemplate(), rpcName(a.One))})
	}
	if b.description.GetCapabilities().GetResources() == nil {
		for _, m := range set.Unreadable() {
			b.warn(rpcName(m), fmt.Sprintf("it lists resources %s, but no method reads them; set that uri_template on one", m.URITemplate()))
		}
	}
	return set
}

// rpcName is "pkg.Service/Method" of a method that resources come from.
func rpcName(m *resource.Method) string { return strings.TrimPrefix(m.Procedure(), "/") }
