// SPDX-License-Identifier: Apache-2.0

package mcpjson

import outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"

// AppendIcons appends pictures for a user interface as the object {"icons": [...]}
// of its one member, which is empty where there are none.
func AppendIcons(dst []byte, icons []*outriggerv1.Icon) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.raw("{")
	w.icons(icons)
	w.raw("}")
	return w.done()
}
