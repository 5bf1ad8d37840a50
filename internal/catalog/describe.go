// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/annotation"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// describe fills in all of a tool that is for reading: texts, hints, metadata, examples. What is declared wins over what
// the descriptors say: the options of this project, then comments, then annotations of other tools. What nothing describes
// gets a generated description.
func (b *builder) describe(t *Tool, options methodOptions, declared *configv1.ToolOptions, noted annotation.Method) {
	id := t.Subject()
	md := t.Method.Descriptor
	b.settle(t, declared, t.Method.Service)
	if (options.deprecated || noted.Deprecated) && t.Metadata.DeprecatedIn == "" {
		t.Metadata.DeprecatedIn = unknownVersion
	}
	t.Annotations = annotate(options, declared)
	if !b.declaredOnly {
		t.markVerb()
	}
	t.markShown()

	said := b.comments.of(md, b.linked)
	title := cmp.Or(shown.OneSpaced(declared.GetTitle()), firstSentence(said), strings.TrimSuffix(shown.OneSpaced(noted.Summary), "."), humanName(string(md.Name())))
	t.Title = cutRunes(title, b.limits.MaxTitleRunes)
	text := cmp.Or(strings.TrimSpace(shown.Clean(declared.GetDescription())), strings.TrimSpace(said), annotated(t, noted))
	if t.Undescribed = text == ""; t.Undescribed {
		text = b.generated(t, noted)
	}
	t.Paging = pagingOf(t, declared)
	text = t.Paging.describe(text)
	text, wasCut := shown.CutBytes(deprecation(t.Metadata.DeprecatedIn)+text, b.limits.MaxDescriptionBytes)
	if wasCut {
		b.warn(id, fmt.Sprintf("its description is truncated to %d bytes", b.limits.MaxDescriptionBytes))
	}
	t.Description = text
	t.Examples = b.examples(t, declared.GetExamples())
	for _, e := range declared.GetErrors() {
		t.Errors = append(t.Errors, ToolError{Status: e.GetStatus(), When: shown.OneSpaced(e.GetWhen())})
	}
}

// noted is what annotations of other tools say of a method.
func (b *builder) noted(t *Tool) annotation.Method {
	said, problems := annotation.OfMethod(t.Method.Descriptor)
	for _, p := range problems {
		b.warn(t.Subject(), p)
	}
	return said
}

// settle fills in what is declared and needs no words; what says nothing gets its default.
func (b *builder) settle(t *Tool, declared *configv1.ToolOptions, module string) {
	t.Version = cmp.Or(declared.GetVersion(), defaultVersion)
	t.Timeout = declared.GetTimeout().AsDuration()
	t.Tags, t.Icons, t.Scopes = declared.GetTags(), declared.GetIcons(), declared.GetScopes()
	t.TaskSupport = cmp.Or(declared.GetTaskSupport(), "forbidden")
	t.TaskUnsaid = declared.GetTaskSupport() == ""
	t.TaskAfter = declared.GetTaskAfter().AsDuration()
	t.StreamTime = declared.GetStreamTime().AsDuration()
	if declared != nil && declared.ResultBudget != nil {
		t.ResultBudget = new(int(declared.GetResultBudget()))
	}
	t.Metadata = Metadata{
		Module:       cmp.Or(shown.Clean(declared.GetModule()), module),
		Destructive:  declared.GetDestructive(),
		DeprecatedIn: shown.Clean(declared.GetDeprecatedIn()),
		CacheTTL:     defaultCacheTTL,
	}
	if ttl := declared.GetCacheTtl(); ttl != nil {
		t.Metadata.CacheTTL = ttl.AsDuration()
	}
}

// generated is the description of a method that nothing describes: verb and object from its name, the main inputs, what
// comes back, and what its service is about.
func (b *builder) generated(t *Tool, said annotation.Method) string {
	md := t.Method.Descriptor
	text := action(string(md.Name()), string(md.Parent().Name())) + ". " + exchanged(t, said)
	if about := b.aboutService(md.Parent()); about != "" {
		text += " " + about + "."
	}
	return text
}

// aboutService is the first sentence of a service's comment, else of its description in an annotation, else of that of its file.
func (b *builder) aboutService(d protoreflect.Descriptor) string {
	if about := firstSentence(b.comments.of(d, b.linked)); about != "" {
		return about
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return ""
	}
	said := cmp.Or(strings.TrimSpace(annotation.ServiceDescription(sd)), strings.TrimSpace(annotation.FileDescription(sd.ParentFile())))
	return firstSentence(shown.Clean(said))
}

// tell reads what each service says of itself.
func (b *builder) tell(services []Service) {
	for i := range services {
		s := &services[i]
		if s.Descriptor == nil {
			continue
		}
		file := annotation.OfFile(s.Descriptor.ParentFile())
		_, e := editionOf(s.Descriptor)
		s.about = serviceAbout{
			text: cutRunes(cmp.Or(b.comments.of(s.Descriptor, b.linked), shown.Clean(annotation.ServiceDescription(s.Descriptor)), shown.Clean(file.Description)), maxInstructions),
			title: cutRunes(cmp.Or(shown.OneSpaced(file.Title),
				humanName(strings.TrimSuffix(string(s.Descriptor.Name()), "Service")), string(s.Descriptor.Name())), b.limits.MaxTitleRunes),
			version: cutRunes(cmp.Or(shown.OneSpaced(file.Version), e.version), b.limits.MaxTitleRunes),
		}
	}
}

// annotate gathers the hints. Declared ones come first, then the idempotency level, then the HTTP verb. A mark as
// destructive also takes back a read-only hint, since both cannot be true and the mark is the safe one.
func annotate(options methodOptions, declared *configv1.ToolOptions) Annotations {
	yes, no := true, false
	var a Annotations
	switch {
	case options.idempotency == NoSideEffects,
		options.idempotency == IdempotencyUnknown && options.httpVerb == httpGet:
		a = Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes}
	case options.idempotency == Idempotent,
		options.httpVerb == httpPut:
		a = Annotations{Idempotent: &yes}
	}
	if options.idempotency != NoSideEffects && options.httpVerb == httpDelete {
		a.Destructive = &yes
	}
	for _, hint := range [...]struct {
		to       **bool
		declared *bool
	}{
		// The pointers tell a declared false from nothing, which the getters do not.
		{&a.ReadOnly, declared.ReadOnly},       //nolint:protogetter // See above.
		{&a.Destructive, declared.Destructive}, //nolint:protogetter // See above.
		{&a.Idempotent, declared.Idempotent},   //nolint:protogetter // See above.
		{&a.OpenWorld, declared.OpenWorld},     //nolint:protogetter // See above.
	} {
		if hint.declared != nil {
			value := *hint.declared
			*hint.to = &value
		}
	}
	if declared.GetDestructive() {
		a.ReadOnly = &no
	}
	if declared.GetReadOnly() && declared.Destructive == nil {
		a.Destructive = &no
	}
	return a
}

// examples keeps the examples whose arguments the tool accepts; a wrong one would teach a model to fail.
func (b *builder) examples(t *Tool, declared []*outriggerv1.ToolExample) []Example {
	id := t.Subject()
	var out []Example
	for i, e := range declared {
		example := Example{
			Name: shown.Clean(e.GetName()), Description: shown.Clean(e.GetDescription()),
			Arguments: json.RawMessage(e.GetArgumentsJson()), Status: e.GetStatus(),
		}
		if err := t.checkExample(example.Arguments); err != nil {
			b.warn(id, fmt.Sprintf("example %d (%s) omitted: the tool rejects its arguments: %v", i+1, shown.Clip(example.Name), err))
			continue
		}
		if data := e.GetDataJson(); json.Valid([]byte(data)) {
			example.Data = json.RawMessage(data)
		}
		out = append(out, example)
	}
	return out
}
