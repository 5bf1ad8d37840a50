// SPDX-License-Identifier: Apache-2.0

package transcode

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// text reads a string, whose opening quote may stand at pos, and returns it decoded. Without escapes it is part of the
// document; with them it is valid until the next string is read.
func (r *reader) text(pos int) ([]byte, int) { return jsontext.ReadString(r.doc, pos, &r.scratch) }
