// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// The sections, as Gap.Section names them.
const (
	sectionPurpose     = "purpose"
	sectionInvocation  = "invocation"
	sectionInput       = "input"
	sectionOutput      = "output"
	sectionErrors      = "errors"
	sectionIdempotency = "idempotency"
	sectionExamples    = "examples"
	sectionSecurity    = "security"
)

// gaps names what is missing on a page. What a section says by default is not missing.
func gaps(t *catalog.Tool, p *Page) []Gap {
	out := []Gap{}
	add := func(section, format string, args ...any) {
		out = append(out, Gap{section, fmt.Sprintf(format, args...)})
	}
	if method := t.Method.Descriptor; !t.Native && method.ParentFile().SourceLocations().Len() == 0 {
		add(sectionPurpose, "the descriptors have no comments; build them with source information (`buf build -o`, `protoc --include_source_info`)")
	}
	if t.Undescribed {
		add(sectionPurpose, "no description is declared; comment the method, or set (outrigger.v1.tool).description")
	}
	for _, s := range [...]struct {
		section string
		side    Side
	}{{sectionInput, p.Input}, {sectionOutput, p.Output}} {
		if s.section == sectionOutput && t.Streams() {
			continue // its members are the sidecar's own
		}
		if names := undescribed(s.side.Fields); len(names) > 0 {
			add(s.section, "no description is declared for %s; comment the fields", strings.Join(names, ", "))
		}
	}
	if !t.HasOutput() && !t.IsDocument() {
		add(sectionOutput, "no output schema is declared, so the result is not guaranteed")
	}
	if len(t.Errors) == 0 {
		add(sectionErrors, "the statuses that the tool returns are not declared; add them with (outrigger.v1.tool).errors")
	}
	if p.Idempotency.Level == "unknown" {
		add(sectionIdempotency, "whether a call can be retried is not declared; set idempotency_level, or (outrigger.v1.tool).idempotent")
	}
	if len(p.Examples) == 0 {
		add(sectionExamples, "no examples are declared; add them with (outrigger.v1.tool).examples")
	}
	for _, e := range p.Examples {
		if len(e.Data) == 0 && e.Status == "" {
			add(sectionExamples, "the example %q has no result; add its data_json, or its failure status", e.Name)
		}
	}
	readsOnly := t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
	switch {
	case t.Verb != "":
		add(sectionSecurity, "whether it is destructive is not declared, so its name decides (%s); set (outrigger.v1.tool).destructive", t.Verb)
	case !t.Metadata.Destructive && t.Annotations.Destructive == nil && !readsOnly:
		add(sectionSecurity, "whether it is destructive is not declared, so clients assume that it is; set (outrigger.v1.tool).destructive")
	}
	if t.Annotations.OpenWorld == nil {
		add(sectionSecurity, "whether it interacts with systems outside the service is not declared, so clients assume that it does; set (outrigger.v1.tool).open_world")
	}
	return out
}

func undescribed(fields []Field) []string {
	var names []string
	for _, f := range fields {
		if f.Description == "" {
			names = append(names, f.Name)
		}
	}
	return names
}
