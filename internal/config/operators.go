// SPDX-License-Identifier: Apache-2.0

package config

import (
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// LoadOperators reads the file that listeners.admin_tokens_file names and validates it
// against the rules of its message. No two operators may share a name, a token or a
// certificate.
//
// The error is an *Error with all faults, each with its line. It repeats nothing
// from the file, because misplaced text may be a token.
func LoadOperators(path string) (*configv1.Operators, error) {
	operators := &configv1.Operators{}
	d := newDraftOf(operators)
	d.secret = true
	d.readFile(path, origin{source: path}, MaxFileBytes)
	if !d.unread {
		if err := d.checkRules(); err != nil {
			return nil, err
		}
		checkCredentials(d, "operators", operators.GetOperators(), "one operator may have several tokens")
	}
	if len(d.faults) > 0 {
		return nil, errorFromFaults(d.faults)
	}
	return operators, nil
}
