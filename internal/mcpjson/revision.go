// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Revision is a revision of MCP. The methods in this file cover all differences between
// revisions that this package knows.
type Revision uint8

// The revisions, newest first. The zero value is the newest, which is the most expressive.
const (
	Rev20260728 Revision = iota
	Rev20251125
	Rev20250618
	Rev20250326
)

// ParseRevision returns the revision with this name, such as "2025-11-25", and
// false if it is none of the four.
func ParseRevision(version string) (Revision, bool) {
	for _, r := range []Revision{Rev20260728, Rev20251125, Rev20250618, Rev20250326} {
		if r.String() == version {
			return r, true
		}
	}
	return 0, false
}

// String returns the revision's name, as used in protocolVersion.
func (r Revision) String() string {
	switch r {
	case Rev20260728:
		return "2026-07-28"
	case Rev20251125:
		return "2025-11-25"
	case Rev20250618:
		return "2025-06-18"
	case Rev20250326:
		return "2025-03-26"
	default:
		return "of an unknown revision"
	}
}

// Narrow returns what a client's declaration means in this revision. A capability that
// the revision does not define must not be used, whatever the client declares (MCP
// lifecycle). Before 2026-07-28, there are no tasks of the extension. Before
// 2025-11-25, an elicitation is a form, and sampling has neither tools nor context.
// Before 2025-06-18, there is no elicitation. The argument is not modified.
func (r Revision) Narrow(c *outriggerv1.ClientCapabilities) *outriggerv1.ClientCapabilities {
	if c == nil || r.isModern() {
		return c
	}
	c = proto.CloneOf(c)
	c.Tasks = false
	if !r.hasModes() {
		if c.Elicitation != nil {
			c.Elicitation = &outriggerv1.ElicitationCapability{Form: true}
		}
		if c.Sampling != nil {
			c.Sampling = new(outriggerv1.SamplingCapability)
		}
	}
	if !r.hasElicitation() {
		c.Elicitation = nil
	}
	return c
}

// isModern holds for the revision in which structured content may be of any kind
// and an output schema have any root.
func (r Revision) isModern() bool { return r == Rev20260728 }

// hasModes holds where an elicitation says its mode and may be a URL.
func (r Revision) hasModes() bool { return r <= Rev20251125 }

// hasSamplingTools holds where sampling knows tools and messages of several
// blocks.
func (r Revision) hasSamplingTools() bool { return r <= Rev20251125 }

// namesElicitations holds where an elicitation by URL has an elicitationId, under
// which its end is announced.
func (r Revision) namesElicitations() bool { return r == Rev20251125 }

// hasElicitation holds where users can be asked at all.
func (r Revision) hasElicitation() bool { return r <= Rev20250618 }

// hasStructuredContent holds where a result has data beside its content.
func (r Revision) hasStructuredContent() bool { return r <= Rev20250618 }

// hasResourceLinks holds where content may point to a resource.
func (r Revision) hasResourceLinks() bool { return r <= Rev20250618 }
