// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Direction is the direction of the messages that a schema describes.
type Direction uint8

const (
	// Input is the direction of messages from callers.
	Input Direction = iota
	// Output is the direction of results from tools.
	Output
)

// Profile is the kind of client that an advertised schema is written for. The zero value is ProfileMCP.
type Profile uint8

const (
	// ProfileMCP is for MCP clients: one form per field, messages inline, $defs and $ref only where a message contains
	// itself or where inlining would make the schema too large.
	ProfileMCP Profile = iota
	// ProfileStrict shows inputs in the few keywords that the strict modes of OpenAI, Anthropic and Gemini all accept. It is
	// less expressive: limits of values are in the descriptions, maps are lists of entries, and what these keywords cannot
	// express is shown as a string that holds JSON (transcode.Options.QuotedObjects). Outputs have the same keywords, say less
	// than in ProfileMCP, and admit everything that those admit.
	ProfileStrict
)

// ParseProfile parses the name of a profile, "mcp" or "strict".
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

// Options configure Derive. The zero value is ready for use.
type Options struct {
	// Profile chooses the form of Schema.Advertised. Schema.Canonical does not depend on it.
	Profile Profile
	// Extensions, if set, adds the extension fields of each message under their ProtoJSON name, "[full.name]".
	Extensions Extensions
	// WithoutRules leaves out protovalidate's rules; only the constraints of ProtoJSON and the descriptor remain.
	WithoutRules bool
	// Needs, if set, is shared by all derivations with these options. Otherwise each has its own.
	Needs *Needs
	// WithoutDescriptions leaves out comments, for a schema that only machines read.
	WithoutDescriptions bool
	// MaxDepth bounds how deeply messages are inlined; deeper ones move to $defs. 0 means 16.
	MaxDepth int
	// MaxSchemas bounds the number of subschemas of one schema. MaxBytes bounds its size in bytes of JSON. If either is
	// exceeded, the messages farthest from the root are left open, with a warning. 0 means 20,000 and 1 MiB.
	MaxSchemas, MaxBytes int
	// InlineBytes is the size in bytes of JSON up to which the advertised schema repeats a message inline instead of
	// sharing it in $defs. 0 means 16 KiB.
	InlineBytes int
	// Words are descriptions of fields by their full names. In the advertised schema they take the place of comments and
	// annotations. Schema.Canonical does not have them.
	Words map[protoreflect.FullName]string
	// Sight, if set, is what one caller sees of an output. Fields that it hides are not in the schema, and what is masked keeps to no
	// rules. There are no examples then.
	Sight *Sight
	// Examples are texts of messages, in JSON, that the advertised schema of an output shows before those of the message's own
	// annotations. Wrong ones are left out, with a warning.
	Examples []string
	// ExampleRoom is the size in bytes that no example makes an advertised schema of an output exceed. 0 means no limit but that
	// of each example.
	ExampleRoom int
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

// Schema holds the schemas of one message. The caller owns all of it.
type Schema struct {
	// Canonical accepts every form that ProtoJSON accepts. Input is validated against it.
	Canonical json.RawMessage
	// Advertised shows one form of each field, for one profile. Canonical accepts everything that Advertised accepts. In
	// ProfileStrict, this holds after the JSON in strings has been decoded, and if the descriptions are followed.
	Advertised json.RawMessage
	// Shared is Advertised with repeated messages in $defs where that makes it smaller, for clients that follow $ref. It is
	// not part of what Derive returns: see Lazy.Shared.
	Shared json.RawMessage
	// Warnings list what the schemas could not express, for the operator. The transcoder still reads and checks the message
	// in full.
	Warnings []string
	// Wrapped is set if the ProtoJSON form of the message is not an object (a Timestamp, a wrapper, ...). Advertised then
	// describes an object with the single member "value", the name that Any uses for such types. On input, the canonical
	// schema and the transcoder accept both forms; on output, the edge has to wrap.
	Wrapped bool
}
