// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// Source provides descriptors. Implementations must be safe for concurrent use; Live runs one load of a source at a time.
type Source interface {
	// Name identifies the source to operators, as in "reflection at http://127.0.0.1:50051". It holds no secrets.
	Name() string
	// Load fetches everything anew. On failure it returns nil and a *Error, or nil and the context's error.
	Load(ctx context.Context) (*Loaded, error)
}

// Loaded is the result of one load of one source.
type Loaded struct {
	// Source is the source's name.
	Source string
	// Files holds every file once, in no particular order.
	Files []*descriptorpb.FileDescriptorProto
	// Same are the paths of further files that are unchanged since the revision passed to LoadUnless. The catalog already has
	// them. A file that imports a changed file, directly or indirectly, is not among them, and neither is one of
	// Revision.Needed.
	Same []string
	// Services are the full names of the services that the source offers. Nil means every service in Files and Same except
	// those in Imported.
	Services []string
	// Imported are the paths of files that are present only because others import them. Their services become tools only
	// if an include glob names them without a wildcard.
	Imported []string
	// Reflected means that the backend itself lists Services as those it serves. If the backend is a sidecar, it has already
	// made tools of them. They do not become tools again and are available to typed callers only.
	Reflected bool
	// Native is what a backend that implements the tool API provides; nil for other sources.
	Native *Native
	// Warnings are problems that did not prevent the load.
	Warnings []Warning
	// Static means that the next load returns the same result unless a file changes.
	Static bool

	// Revision identifies this load; nil if the source cannot tell. See Conditional.
	Revision *Revision
}

// Warning is a problem for the operator to know that does not cost the whole catalog.
type Warning struct {
	// Subject is the subject of the warning: a source, a file path, or a method as "pkg.Service/Method".
	Subject string
	// Text describes what happened and, if there is one, the remedy.
	Text string
}

// String returns the subject and the text.
func (w Warning) String() string { return w.Subject + ": " + w.Text }

// Error names the source that failed, the step, and the cause.
type Error struct {
	// Source is the source's name.
	Source string
	// Step is the step that failed, as in "list services" or "read file".
	Step string
	// Permanent means that retrying cannot help until a file or a flag changes.
	Permanent bool
	// Cause is the underlying error; never nil.
	Cause error
}

// Error returns the source, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Source, e.Step, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// IsInfrastructure reports whether a service is for infrastructure rather than for callers. Such a service becomes a tool
// only if an include glob names it without a wildcard.
func IsInfrastructure(service string) bool {
	switch {
	case strings.HasPrefix(service, "grpc.reflection."),
		strings.HasPrefix(service, "grpc.health."),
		strings.HasPrefix(service, "grpc.channelz."),
		strings.HasPrefix(service, "envoy.service.status."), // CSDS, which gRPC's admin package registers
		// A backend that speaks the tool API itself is a source of its own, not a set of RPCs.
		strings.HasPrefix(service, "outrigger.v1."):
		return true
	}
	return false
}
