// SPDX-License-Identifier: Apache-2.0

package content

import "github.com/outrigger-mcp/outrigger/errmap"

// NotOn returns an error for an experimental feature that is off; member is the member of the request that asks for it, empty for
// the whole request.
func NotOn(code errmap.Code, member, what, name string) *errmap.Error {
	err := errmap.Because(code, what+" is experimental and off; the operator turns it on with --experimental "+name)
	if member != "" {
		err.Violations = []errmap.Violation{{Path: member, Keyword: "experimental", Message: "needs --experimental " + name}}
	}
	return err
}
