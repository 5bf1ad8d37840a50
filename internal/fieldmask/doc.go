// SPDX-License-Identifier: Apache-2.0

// Package fieldmask reads field masks, and applies them to JSON documents. A mask is a google.protobuf.FieldMask in its JSON
// form: paths with dots, separated by commas, such as "items.name,nextPageToken".
//
// A path names members as they are in the JSON document, or as they are in the Protobuf message ("next_page_token"). It goes
// through the elements of lists and needs no mark for them; "*" stands for all entries of a map, or all elements of a list. An
// entry of a map is named by its key, between backquotes if it is not a plain word. A path selects all that is below its last
// member. What a path selects that is not in a document is left out, as any unset field is.
package fieldmask
