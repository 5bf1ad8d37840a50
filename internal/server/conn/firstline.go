// SPDX-License-Identifier: Apache-2.0

package conn

import "strings"

// firstLine looks at the first line of a connection, which comes in as many reads as the server likes.
type firstLine struct {
	// known is set once the line is complete, or cannot be a request line.
	known bool
	// spaces is how many there were, at most two. last is how the last word begins.
	spaces, size int
	last         [len("HTTP/")]byte
}

// isForeign takes the next bytes. It returns true if they complete a line of three words or more, as a request line
// is, whose last word names another protocol than HTTP. net/http answers what is merely malformed.
func (l *firstLine) isForeign(next []byte) bool {
	for _, b := range next {
		switch {
		case b == '\n':
			l.known = true
			return l.spaces == 2 && !strings.EqualFold(string(l.last[:]), "HTTP/")
		case b == ' ':
			l.spaces, l.size = min(l.spaces+1, 2), 0
			clear(l.last[:])
		case l.spaces == 0 && (b < 'A' || b > 'Z'): // TLS, or no method
			l.known = true
			return false
		case l.size < len(l.last):
			l.last[l.size] = b
			l.size++
		}
	}
	return false
}
