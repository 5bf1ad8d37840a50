// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// Source is where descriptors come from. Implementations are safe for concurrent use; Live calls them one load at a
// time.
type Source interface {
	// Name tells an operator which source it is, as in "reflection at http://127.0.0.1:50051". It holds no secrets.
	Name() string
	// Load fetches everything afresh. It returns a *Error, or the context's error, and then nothing else.
	Load(ctx context.Context) (*Loaded, error)
}

// Loaded is what one load of one source brought.
type Loaded struct {
	// Source is the source's name.
	Source string
	// Files holds every file once, in no particular order.
	Files []*descriptorpb.FileDescriptorProto
	// Same are the paths of further files, which are as they were in the load of the revision that LoadUnless was given. A
	// file that imports one that has changed is not among them, however far away, and neither is one of Revision.Needed.
	// The catalog has them already.
	Same []string
	// Services are the full names of the services that the source offers; nil means every service in Files and Same that
	// is not in Imported.
	Services []string
	// Imported are the paths of files that are there only because others import them. Their services become tools only
	// where an include glob names them without a wildcard.
	Imported []string
	// Reflected tells that Services are what the backend itself says it serves. Where that is a sidecar, it has made
	// tools of them already; they are not made into tools again, and are there for typed callers alone.
	Reflected bool
	// Native is what a backend that speaks the tool API offers; nil where the source is none.
	Native *Native
	// Warnings are what was odd, but did not stand in the way.
	Warnings []Warning
	// Static tells that the next load will bring the same, unless somebody changes a file.
	Static bool

	// Revision identifies this load; nil where the source cannot tell. See Conditional.
	Revision *Revision
}

// Warning is something that an operator should know and that costs less than the catalog.
type Warning struct {
	// Subject is what it is about: a source, a file path, or a method as "pkg.Service/Method".
	Subject string
	// Text says what happened and, where there is one, the way out.
	Text string
}

// String is the subject and the text.
func (w Warning) String() string { return w.Subject + ": " + w.Text }

// Error says which source failed, at which step, and why.
type Error struct {
	// Source is the source's name.
	Source string
	// Step is what was being done, as in "list services" or "read file".
	Step string
	// Permanent tells that trying again cannot help until someone changes a file or a flag.
	Permanent bool
	// Cause is the error itself; never nil.
	Cause error
}

// Error is the source, the step and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Source, e.Step, e.Cause)
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// IsInfrastructure reports whether a service serves the machinery and not the callers. Such a service becomes a tool
// only where an include glob names it without a wildcard.
func IsInfrastructure(service string) bool {
	switch {
	case strings.HasPrefix(service, "grpc.reflection."),
		strings.HasPrefix(service, "grpc.health.v1."),
		strings.HasPrefix(service, "grpc.channelz."),
		// A backend that speaks the tool API itself is a source of its own, not a set of RPCs.
		strings.HasPrefix(service, "outrigger.v1."):
		return true
	}
	return false
}
