// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"encoding/base64"
	"strings"
)

// appendSendable appends to dst what every protocol can send of a header's value. HTTP allows tabs in values, gRPC does not;
// neither keeps whitespace at the ends. Whitespace around the members of a list has no meaning (RFC 9110, section 5.6.1), so
// it is normalised. Of the lists that W3C defines, a member that still cannot be sent is dropped alone; any other value is
// dropped whole. name may be in any spelling.
func appendSendable(dst []string, name, value string) []string {
	switch {
	case hasSuffixFold(name, "-bin"):
		return appendBinary(dst, value)
	case isSendable(value):
		return append(dst, value)
	case strings.EqualFold(name, baggageHeader):
		// A tab can only stand around the delimiters of a member, where a space means the same.
		value = strings.ReplaceAll(value, "\t", " ")
	case strings.EqualFold(name, "tracestate"):
	default:
		if value = normalised(value); isSendable(value) {
			return append(dst, value)
		}
		return dst
	}
	if value = sendableMembers(value); value == "" {
		return dst
	}
	return append(dst, value)
}

// normalised is a value without whitespace at its ends. A value with tabs may be a list: it loses them around its commas.
func normalised(value string) string {
	value = strings.Trim(value, " \t")
	if !strings.Contains(value, "\t") {
		return value
	}
	members := strings.Split(value, ",")
	for i := range members {
		members[i] = strings.Trim(members[i], " \t")
	}
	return strings.Join(members, ", ")
}

// sendableMembers is a list without the members that cannot be sent.
func sendableMembers(list string) string {
	var kept []string
	for member := range strings.SplitSeq(list, ",") {
		if member = strings.Trim(member, " \t"); member != "" && isSendable(member) {
			kept = append(kept, member)
		}
	}
	return strings.Join(kept, ",")
}

// appendBinary appends the binary values among the members of value: gRPC's implementations refuse a call with one that is
// not base64, and not all of them split a list (gRPC over HTTP/2, custom metadata).
func appendBinary(dst []string, value string) []string {
	for member := range strings.SplitSeq(value, ",") {
		if member = strings.Trim(member, " \t"); isBase64(member) {
			dst = append(dst, member)
		}
	}
	return dst
}

// isBase64 holds for base64 with its padding or without.
func isBase64(s string) bool {
	encoding := base64.RawStdEncoding
	if len(s)%4 == 0 {
		encoding = base64.StdEncoding
	}
	_, err := encoding.DecodeString(s)
	return err == nil && isSendable(s) // the decoder skips line ends
}

// isSendable holds for values that every protocol can send: printable ASCII with no space at the ends.
func isSendable(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return value == "" || value[0] != ' ' && value[len(value)-1] != ' '
}

// isSendableName holds for names, in lower case, that every protocol can send: gRPC has fewer characters than HTTP.
func isSendableName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != ""
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) >= len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}
