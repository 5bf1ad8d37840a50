// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Registration is a tool declared at run time: an RPC of the backend under a chosen name with chosen schemas.
// Name, Description, InputSchema and Binding are required. Do not modify anything it refers to afterwards.
type Registration struct {
	// Name is the canonical name.
	Name               string
	Title, Description string
	// InputSchema and OutputSchema are JSON Schemas with "type": "object" at their roots. If OutputSchema is unset, the
	// output schema is that of the RPC's own tool.
	InputSchema, OutputSchema json.RawMessage
	Binding                   Binding
	// Metadata overrides that of the RPC's own tool. A registration can mark a tool as destructive but never remove the
	// mark, so a second name does not bypass the gate.
	Metadata RegisteredMetadata
	// Annotations override those of the RPC's own tool, hint by hint.
	Annotations Annotations
	// Version is a semantic version; empty means 1.0.0.
	Version string
	// Timeout bounds one call; 0 means the timeout of the RPC's own tool.
	Timeout time.Duration
	// TaskSupport defaults to "forbidden" if empty.
	TaskSupport string
	// Examples are sample calls for models, which the tool must accept.
	Examples []Example
}

// Binding names an RPC.
type Binding struct {
	// Service is the full name of the service. Method is the simple name of the method.
	Service, Method string
}

// procedure is the RPC's path.
func (b Binding) procedure() string { return "/" + b.Service + "/" + b.Method }

// RegisteredMetadata is Metadata with members that a registration may leave unset.
type RegisteredMetadata struct {
	Module       string
	Destructive  bool
	DeprecatedIn string
	// CacheTTL defaults to 300 s if nil.
	CacheTTL *time.Duration
}

// Refusal is the reason why a registration was refused.
type Refusal uint8

const (
	// Invalid means that the registration itself is invalid.
	Invalid Refusal = iota
	// Conflict means that the name belongs to a different tool, or that another version is registered.
	Conflict
	// TooMany means that the registration exceeds a limit.
	TooMany
	// Unknown means that no tool with the name is registered.
	Unknown
)

// RegistrationError is the reason why a tool was not registered.
type RegistrationError struct {
	// Name is the tool's name, sanitized for display.
	Name   string
	Reason Refusal
	// Faults are all problems found. Paths are JSON Pointers into outrigger.v1.RegisterToolRequest.
	Faults []schema.Violation
	// Remedy explains how to replace the registered tool, if a higher version would do that.
	Remedy string
}

// Error lists the faults on one line.
func (e *RegistrationError) Error() string {
	var faults []string
	for _, f := range e.Faults {
		faults = append(faults, strings.TrimPrefix(f.Path+": "+f.Message, ": "))
	}
	if e.Remedy != "" {
		faults = append(faults, e.Remedy)
	}
	return fmt.Sprintf("tool %q is not registered: %s", e.Name, strings.Join(faults, "; "))
}

// registered is a registration that is right in itself, ready to be bound to whatever catalog there is.
type registered struct {
	Registration
	input, output declaration
	// bytes is what it counts for in Limits.MaxRegisteredBytes.
	bytes int
}

// prepare checks what can be told without a catalog, and compiles the schemas.
func (r Registration) prepare(rules *optionRules) (*registered, []schema.Violation, error) {
	r.Name, r.Version = strings.Clone(r.Name), cmp.Or(r.Version, defaultVersion)
	r.Title = strings.Join(strings.Fields(shown.Clean(r.Title)), " ")
	r.Description = strings.TrimSpace(shown.Clean(r.Description))
	r.TaskSupport = cmp.Or(r.TaskSupport, "forbidden")
	out := &registered{Registration: r}
	var faults []schema.Violation
	add := func(path, keyword, message string) {
		faults = append(faults, schema.Violation{Path: path, Keyword: keyword, Message: message})
	}
	if r.Name == "" {
		add("/name", "required", "a tool needs a name")
	}
	switch {
	case r.Description == "":
		add("/description", "required", "a tool needs a description, which models use to choose tools")
	case len(r.Description) > contract().description: // it is not cut: the words were chosen on purpose
		add("/description", "maxLength", fmt.Sprintf("it has %d bytes; the limit is %d", len(r.Description), contract().description))
	}
	broken, err := rules.violations(r.options())
	if err != nil {
		return nil, nil, err
	}
	for _, v := range broken {
		add(requestPath(v.Path), v.Keyword, v.Message)
	}
	declare := func(member string, raw json.RawMessage) declaration {
		d, found := compileDeclared(raw)
		for _, f := range found {
			add(member+f.Path, f.Keyword, f.Message)
		}
		return d
	}
	if r.InputSchema == nil {
		add("/input_schema", "required", `a tool needs an input schema; without arguments it is {"type": "object", "additionalProperties": false}`)
	} else {
		out.input = declare("/input_schema", r.InputSchema)
	}
	if r.OutputSchema != nil {
		out.output = declare("/output_schema", r.OutputSchema)
	}
	for i, e := range r.Examples {
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			add(fmt.Sprintf("/examples/%d/data_json", i), "json", "it is not JSON")
		}
	}
	// The texts of the schemas are kept as they were compiled.
	out.InputSchema, out.OutputSchema = nil, nil
	out.bytes = r.size()
	return out, faults, nil
}

// options are the members that a registration shares with the options of a method, whose rules they keep.
func (r *Registration) options() *configv1.ToolOptions {
	o := &configv1.ToolOptions{
		Name: r.Name, Title: r.Title, Version: r.Version, Module: r.Metadata.Module,
		DeprecatedIn: r.Metadata.DeprecatedIn, TaskSupport: r.TaskSupport,
	}
	if r.Metadata.Destructive {
		o.Destructive, o.ReadOnly = &r.Metadata.Destructive, r.Annotations.ReadOnly
	}
	if r.Metadata.CacheTTL != nil {
		o.CacheTtl = durationpb.New(*r.Metadata.CacheTTL)
	}
	if r.Timeout != 0 {
		o.Timeout = durationpb.New(r.Timeout)
	}
	for _, e := range r.Examples {
		o.Examples = append(o.Examples, &outriggerv1.ToolExample{
			Name: e.Name, Description: e.Description, ArgumentsJson: string(e.Arguments), DataJson: string(e.Data), Status: e.Status,
		})
	}
	return o
}

// requestPath is the path in a registration of what has another one among the options of a method.
func requestPath(path string) string {
	member, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch member {
	case "module", "deprecated_in", "cache_ttl":
		return "/metadata" + path
	case "timeout", "task_support":
		return "/execution" + path
	case "":
		return "/metadata/destructive"
	}
	return path
}

// size is about what the registration takes in memory, without what its schemas are compiled to.
func (r *Registration) size() int {
	n := len(r.Name) + len(r.Title) + len(r.Description) + len(r.InputSchema) + len(r.OutputSchema) + len(r.Binding.Service) +
		len(r.Binding.Method) + len(r.Metadata.Module) + len(r.Metadata.DeprecatedIn) + len(r.Version)
	for _, e := range r.Examples {
		n += len(e.Name) + len(e.Description) + len(e.Arguments) + len(e.Data)
	}
	return n
}

// differences names the members in which two registrations of one name are not the same. Schemas are compared by their
// meaning as JSON: white space, the order of members and escapes do not count.
func (r *registered) differences(other *registered) []string {
	var out []string
	for _, member := range []struct {
		name     string
		one, two any
	}{
		{"input_schema", r.input.canonical, other.input.canonical},
		{"output_schema", r.output.canonical, other.output.canonical},
		{"binding", r.Binding, other.Binding},
		{"description", r.Description, other.Description},
		{"title", r.Title, other.Title},
		{"version", r.Version, other.Version},
		{"metadata", r.Metadata.settled(), other.Metadata.settled()},
		{"annotations", r.Annotations, other.Annotations},
		{"execution.timeout", r.Timeout, other.Timeout},
		{"execution.task_support", r.TaskSupport, other.TaskSupport},
		{"examples", r.Examples, other.Examples},
	} {
		if !reflect.DeepEqual(member.one, member.two) {
			out = append(out, member.name)
		}
	}
	return out
}

// settled fills in the default of what was left open.
func (m RegisteredMetadata) settled() Metadata {
	ttl := defaultCacheTTL
	if m.CacheTTL != nil {
		ttl = *m.CacheTTL
	}
	return Metadata{Module: m.Module, Destructive: m.Destructive, DeprecatedIn: m.DeprecatedIn, CacheTTL: ttl}
}
