// SPDX-License-Identifier: Apache-2.0

package held

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// URI begins the URI of a document; a sealed id follows.
	URI = "outrigger://results/"
	// Template is what all of them are like (RFC 6570).
	Template = URI + "{id}{?offset,length}"
	// RangeKey is the member of _meta of a part that says which part it is: {"offset",
	// "length", "size", "next"}, in bytes; "next" is the URI of the next part as long as
	// one follows.
	RangeKey = "dev.outrigger/range"
)

// Is reports whether a URI is that of a document, or of a part of one.
func Is(uri string) bool { return strings.HasPrefix(uri, URI) }

// PartURI returns the URI of a part of a document, in bytes.
func PartURI(document string, offset, length int) string {
	return fmt.Sprintf("%s?offset=%d&length=%d", document, offset, length)
}

// Part is the part of a document that a reader asks for, in bytes.
type Part struct {
	// Asked is set if the URI has an offset or a length.
	Asked bool
	// Offset is where it begins.
	Offset int
	// Length is -1 where it is all that follows.
	Length int
}

// Parse splits a URI for which [Is] holds into the sealed id and the part. wrong says what
// is wrong with it, and is empty where nothing is.
func Parse(uri string) (token string, part Part, wrong string) {
	part.Length = -1
	token, query, found := strings.Cut(strings.TrimPrefix(uri, URI), "?")
	if !found {
		return token, part, ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", Part{}, "the query of the URI cannot be read"
	}
	part.Asked = true
	for name, given := range values {
		n, err := strconv.Atoi(given[0])
		switch {
		case name != "offset" && name != "length":
			return "", Part{}, "the URI may have the parameters offset and length, and not " + strconv.QuoteToASCII(name[:min(len(name), maxShown)])
		case err != nil || n < 0 || len(given) != 1 || name == "length" && n == 0:
			return "", Part{}, name + " has to be given once, as a number of bytes"
		case name == "offset":
			part.Offset = n
		default:
			part.Length = n
		}
	}
	return token, part, ""
}

// maxShown bounds what an error shows of a parameter's name.
const maxShown = 64

// Meta returns _meta of a part of a document of size bytes, of which it has length.
func (p Part) Meta(uri string, length, size int) []byte {
	type about struct {
		Offset int    `json:"offset"`
		Length int    `json:"length"`
		Size   int    `json:"size"`
		Next   string `json:"next,omitempty"`
	}
	out := about{Offset: p.Offset, Length: length, Size: size}
	if end := p.Offset + length; end < size && length > 0 {
		document, _, _ := strings.Cut(uri, "?")
		out.Next = PartURI(document, end, p.Length)
	}
	raw, err := json.Marshal(map[string]about{RangeKey: out})
	if err != nil {
		return nil // numbers and a URI always have a JSON form
	}
	return raw
}

// Explain returns what a host and what a model is told about a document that is not in its
// result: what it is, and how to read it. part is the size of a part that can be read.
func Explain(uri, mediaType string, size, part int, until time.Time) (what, text string) {
	end := until.UTC().Format(time.RFC3339)
	what = fmt.Sprintf("%d bytes of %s, until %s", size, mediaType, end)
	text = fmt.Sprintf("The result is too large to be shown here (%d bytes of %s). Read it with resources/read from %s, or a part of it with ?offset=0&length=%d added to that URI. "+
		"It can be read until %s.", size, mediaType, uri, part, end)
	return what, text
}
