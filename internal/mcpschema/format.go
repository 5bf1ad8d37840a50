// SPDX-License-Identifier: Apache-2.0

package mcpschema

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
)

// checkBase64 is the format byte, which the schemas call base64-encoded data:
// with the standard alphabet and padding (RFC 4648, section 4).
func checkBase64(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	if strings.ContainsAny(text, "\r\n") {
		return errors.New("base64 with line breaks")
	}
	_, err := base64.StdEncoding.Strict().DecodeString(text)
	return err
}

// templateSyntax is a URI template of RFC 6570, section 2: literals, and
// expressions of an operator and names with their modifiers.
var templateSyntax = regexp.MustCompile(`^([^\x00-\x20"'%<>\\^\x60{|}]|%[0-9A-Fa-f]{2}|\{[+#./;?&]?` + variable + `(,` + variable + `)*\})*$`)

const variable = `([A-Za-z0-9_]|%[0-9A-Fa-f]{2})([A-Za-z0-9_.]|%[0-9A-Fa-f]{2})*(:[1-9][0-9]{0,3}|\*)?`

func checkTemplate(value any) error {
	if text, ok := value.(string); ok && !templateSyntax.MatchString(text) {
		return errors.New("no template of RFC 6570")
	}
	return nil
}
