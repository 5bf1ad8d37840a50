// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// View is what a caller sees of what one tool answers. A nil View shows everything. Views of equal keys treat alike. It is safe for
// concurrent use.
type View struct{}

// View returns what a caller sees of the answers of a tool; nil where that is everything.
func (e *Engine) View(_ *identity.Identity, _ *catalog.Tool) *View { return nil }

// Key identifies what the view treats, and how; empty for nil.
func (v *View) Key() string { return "" }

// TreatsResult reports whether the view treats a field that can occur in the request or in the response of the tool. What the
// backend says in free text about such a call, its caller does not get.
func (v *View) TreatsResult() bool { return false }

// Treatment is how a field of the result is treated, by its path from the root of the response, for schemas. varies is set where
// rules about the result itself decide, so that the field may also be there.
func (v *View) Treatment(_ string, _ protoreflect.FieldDescriptor) (how transcode.Treatment, varies bool) {
	return transcode.Treatment{}, false
}

// Apply treats a message of the tool's backend: a response, an item of a stream, the detail of an error, the result of an
// operation. It returns wire itself where it changes nothing, and PERMISSION_DENIED where a rule denies the result. What cannot be
// read is an error too.
func (v *View) Apply(_ protoreflect.MessageDescriptor, wire []byte) ([]byte, *errmap.Error) {
	return wire, nil
}

// ApplyJSON treats the data of a result of a native tool, by the paths that its overlay entry and its output schema give classes to.
func (v *View) ApplyJSON(data []byte) ([]byte, *errmap.Error) { return data, nil }
