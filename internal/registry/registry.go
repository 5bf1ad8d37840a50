// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// DefaultMaxTools is how many tools' schemas are kept compiled. A compiled pair
// takes some tens of kilobytes, so this many stay within a hundred megabytes
// even where messages are large, and a thousand tools need no second compilation.
const DefaultMaxTools = 1024

// Tools is where tools are looked up: a catalog, or what knows the current one.
type Tools interface {
	Lookup(name string) (*catalog.Tool, bool)
}

// Current makes Tools of a function that returns the catalog in use, such as
// the method Current of a catalog.Live. No catalog is one without tools.
type Current func() *catalog.Catalog

// Lookup finds a tool in the catalog that is in use now.
func (current Current) Lookup(name string) (*catalog.Tool, bool) {
	if c := current(); c != nil {
		return c.Lookup(name)
	}
	return nil, false
}

// Options of New. The zero value is ready for use.
type Options struct {
	// Envelope is the profile of the canonical dialect in use, which says what
	// an id is. It is ProfileCanonical, ProfileCanonicalAnyID or
	// ProfileCanonicalUUID; LoadEnvelope refuses others.
	Envelope jsonrpc.Profile
	// Limits bound what ValidateMessageEnvelope reads.
	Limits jsonrpc.Limits
	// MaxTools bounds the tools whose schemas are kept compiled; the one that
	// was not asked for the longest goes first. 0 means DefaultMaxTools.
	MaxTools int
}

// SchemaRegistry hands out compiled schemas. Make one with New.
type SchemaRegistry struct {
	tools    Tools
	opts     Options
	cache    cache
	envelope func() (*Envelope, error)
	message  func() (*MessageForm, error)
}

// New returns a registry over tools. It compiles nothing yet. Nil tools are
// none at all, for code that only needs the schemas of messages.
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

// LoadEnvelope returns the schemas of the four types of messages, compiled for
// the profile of the registry. It returns the same value every time.
func (r *SchemaRegistry) LoadEnvelope() (*Envelope, error) { return r.envelope() }

// LoadMessage returns the schemas of the message form of a tool call. It
// returns the same value every time.
func (r *SchemaRegistry) LoadMessage() (*MessageForm, error) { return r.message() }

// ValidateMessageEnvelope is the function of this name with the profile and the
// limits of the registry.
func (r *SchemaRegistry) ValidateMessageEnvelope(raw []byte) (jsonrpc.Message, error) {
	return validate(raw, r.opts.Envelope, r.opts.Limits)
}
