// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Direction says whose words a schema describes.
type Direction uint8

const (
	// Input is what a caller sends.
	Input Direction = iota
	// Output is what the tool answers.
	Output
)

// Profile is the kind of client that an advertised schema is written for. The zero value is ProfileMCP.
type Profile uint8

const (
	// ProfileMCP is for MCP clients: one form per field, messages inline, $defs and $ref only where a message contains
	// itself or where inlining would make the schema too large.
	ProfileMCP Profile = iota
	// ProfileStrict shows inputs in the few keywords that the strict modes of OpenAI, Anthropic and Gemini all accept. It
	// says less: limits of values are in the descriptions, and what it has no words for is shown as a string that holds JSON
	// (transcode.Options.QuotedObjects). Outputs are as in ProfileMCP, since no model's API is given them, and answers have
	// to fit them.
	ProfileStrict
)

// ParseProfile reads the name of a profile, "mcp" or "strict".
func ParseProfile(name string) (Profile, error) {
	switch name {
	case "mcp":
		return ProfileMCP, nil
	case "strict":
		return ProfileStrict, nil
	}
	return ProfileMCP, fmt.Errorf("schema: unknown profile %q; use mcp or strict", name)
}

// String returns the name of the profile.
func (p Profile) String() string {
	if p == ProfileStrict {
		return "strict"
	}
	return "mcp"
}

// Extensions lists the extensions of a message, in any order, until f returns false. *protoregistry.Types implements it.
type Extensions interface {
	// RangeExtensionsByMessage calls f with each extension of the message.
	RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool)
}

// Options of Derive. The zero value is ready for use.
type Options struct {
	// Profile chooses the form of Schema.Advertised, for inputs. Schema.Canonical does not depend on it.
	Profile Profile
	// Extensions, where given, adds the extension fields of each message under their ProtoJSON name, "[full.name]".
	Extensions Extensions
	// WithoutRules leaves protovalidate's rules out; what remains is what ProtoJSON and the descriptor themselves ask.
	WithoutRules bool
	// WithoutDescriptions leaves comments out, for a schema that only a machine reads.
	WithoutDescriptions bool
	// MaxDepth bounds how many messages are inlined in one another; deeper ones move to $defs. 0 means 16.
	MaxDepth int
	// MaxSchemas bounds the number of subschemas of one schema, MaxBytes its size in bytes of JSON. Over either, the
	// messages that are farthest from the root are left open, and a warning says so. 0 means 20,000 and 1 MiB.
	MaxSchemas, MaxBytes int
	// InlineBytes is the size, in bytes of JSON, up to which the advertised schema repeats a message inline rather than
	// share it in $defs. 0 means 16 KiB.
	InlineBytes int
}

const (
	defaultDepth = 16 // deeper than people nest by hand, and shallow enough for every client's parser
	// A model's context pays for the advertised schema: 16 KiB is about four thousand tokens.
	defaultInlineBytes = 16 << 10
	defaultSchemas     = 20_000
	defaultBytes       = 1 << 20
)

func (o Options) withDefaults() Options {
	defaults.Fill(&o.MaxDepth, defaultDepth)
	defaults.Fill(&o.MaxSchemas, defaultSchemas)
	defaults.Fill(&o.MaxBytes, defaultBytes)
	defaults.Fill(&o.InlineBytes, defaultInlineBytes)
	return o
}

// Schema is what one message looks like from outside. All of it belongs to the caller.
type Schema struct {
	// Canonical admits every form that ProtoJSON admits. Input is validated against it.
	Canonical json.RawMessage
	// Advertised shows one form of each field, for one profile. What it admits, Canonical admits; in ProfileStrict after
	// what stands in strings has been decoded, and as far as its descriptions are kept to.
	Advertised json.RawMessage
	// Warnings say what the schemas could not carry, for the operator. The transcoder reads and checks the message in full
	// all the same.
	Warnings []string
	// Wrapped is set where the ProtoJSON form of the message is not an object (a Timestamp, a wrapper, ...), so that
	// Advertised describes an object with the one member "value", the name that Any uses for such types. On input
	// the canonical schema and the transcoder take both forms; on output the edge has to wrap.
	Wrapped bool
}
