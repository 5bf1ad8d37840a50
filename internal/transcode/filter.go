// SPDX-License-Identifier: Apache-2.0

package transcode

import "google.golang.org/protobuf/reflect/protoreflect"

// Action is what a caller gets in the place of a field's value, the stricter ones last: where several apply, the last one does.
type Action uint8

// The actions.
const (
	Show Action = iota // the value
	Mask               // a value of the same type that says little
	Hash               // a keyed digest, the same each time for one caller
	Hide               // nothing, as if the field were not set
	Deny               // no result at all
)

// MaskStyle is how a string is masked.
type MaskStyle uint8

// The styles.
const (
	MaskStars    MaskStyle = iota // one star per character, at most eight
	MaskLastFour                  // the last four characters, of eight or more
)

// Treatment is how the value of one field is treated.
type Treatment struct {
	Action Action
	Style  MaskStyle
}

// FilterOptions say what a [Filter] does.
type FilterOptions struct {
	// Of is the treatment of a field. path has the names from the root of the message to the field, with dots between them, through
	// lists and maps; it is empty within an Any. A field that is treated is treated as a whole, with all that is in it.
	Of func(path string, fd protoreflect.FieldDescriptor) Treatment
	// Resolve finds the type of an Any by its URL; nil for an unknown one, whose Any is hidden.
	Resolve func(url string) protoreflect.MessageDescriptor
	// Digest is a keyed digest of a value, in hexadecimal.
	Digest func(value []byte) string
}

// Filter takes out of messages of one type, as wire bytes, what a caller may not see. A nil Filter changes nothing. It is safe for
// concurrent use.
type Filter struct{}

// NewFilter returns the filter for a message type; nil where no field that can occur in it is treated.
func NewFilter(_ protoreflect.MessageDescriptor, _ FilterOptions) *Filter { return nil }
