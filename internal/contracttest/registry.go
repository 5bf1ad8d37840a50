// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Current returns the catalog in use, such as the method Current of a catalog.Live; nil before there is one.
type Current func() *catalog.Catalog

// Options configure New. The zero value is ready for use.
type Options struct {
	// Envelope is the profile of the canonical dialect in use, which defines what an
	// id is. It is ProfileCanonical, ProfileCanonicalAnyID or ProfileCanonicalUUID;
	// LoadEnvelope refuses others.
	Envelope jsonrpc.Profile
	// Limits bound what ValidateMessageEnvelope reads.
	Limits jsonrpc.Limits
}

// SchemaRegistry provides compiled schemas. Make one with New.
type SchemaRegistry struct {
	current  Current
	opts     Options
	envelope func() (*Envelope, error)
	message  func() (*MessageForm, error)
}

// New returns a registry over the tools of a catalog. It compiles nothing yet.
func New(current Current, o Options) *SchemaRegistry {
	r := &SchemaRegistry{current: current, opts: o}
	r.envelope = sync.OnceValues(func() (*Envelope, error) { return compileEnvelope(o.Envelope) })
	r.message = sync.OnceValues(compileMessageForm)
	return r
}

// Of is a registry over one catalog.
func Of(c *catalog.Catalog) *SchemaRegistry {
	return New(func() *catalog.Catalog { return c }, Options{})
}

// LoadEnvelope returns the schemas of the four message types, compiled for the
// profile of the registry. It returns the same value every time.
func (r *SchemaRegistry) LoadEnvelope() (*Envelope, error) { return r.envelope() }

// LoadMessage returns the schemas of the message form of a tool call. It
// returns the same value every time.
func (r *SchemaRegistry) LoadMessage() (*MessageForm, error) { return r.message() }

// ValidateMessageEnvelope is the function ValidateMessageEnvelope with the profile
// and the limits of the registry.
func (r *SchemaRegistry) ValidateMessageEnvelope(raw []byte) (jsonrpc.Message, error) {
	return validate(raw, r.opts.Envelope, r.opts.Limits)
}
