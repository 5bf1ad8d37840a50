// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// DefaultMaxTools is the number of tools whose schemas stay compiled. A compiled
// pair takes some tens of kilobytes, so this many stay within a hundred megabytes
// even if messages are large, and a thousand tools are compiled only once.
const DefaultMaxTools = 1024

// Tools looks up tools: a catalog, or a type that knows the current one.
type Tools interface {
	Lookup(name string) (*catalog.Tool, bool)
}

// Current makes Tools of a function that returns the catalog in use, such as the
// method Current of a catalog.Live. A nil catalog has no tools.
type Current func() *catalog.Catalog

// Lookup finds a tool in the catalog in use.
func (current Current) Lookup(name string) (*catalog.Tool, bool) {
	if c := current(); c != nil {
		return c.Lookup(name)
	}
	return nil, false
}

// Options configure New. The zero value is ready for use.
type Options struct {
	// Envelope is the profile of the canonical dialect in use, which defines what an
	// id is. It is ProfileCanonical, ProfileCanonicalAnyID or ProfileCanonicalUUID;
	// LoadEnvelope refuses others.
	Envelope jsonrpc.Profile
	// Limits bound what ValidateMessageEnvelope reads.
	Limits jsonrpc.Limits
	// MaxTools bounds the number of tools whose schemas stay compiled; the least
	// recently used is evicted first. 0 means DefaultMaxTools.
	MaxTools int
}

// SchemaRegistry provides compiled schemas. Make one with New.
type SchemaRegistry struct {
	tools    Tools
	opts     Options
	cache    cache
	envelope func() (*Envelope, error)
	message  func() (*MessageForm, error)
}

// New returns a registry over tools. It compiles nothing yet. Nil means no tools,
// for code that needs only the schemas of messages.
func New(tools Tools, o Options) *SchemaRegistry {
	if tools == nil {
		tools = Current(func() *catalog.Catalog { return nil })
	}
	defaults.Fill(&o.MaxTools, DefaultMaxTools)
	r := &SchemaRegistry{tools: tools, opts: o, cache: newCache(o.MaxTools)}
	r.envelope = sync.OnceValues(func() (*Envelope, error) { return compileEnvelope(o.Envelope) })
	r.message = sync.OnceValues(compileMessageForm)
	return r
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
