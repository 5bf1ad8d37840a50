// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

const (
	spiffeScheme = "spiffe"
	// maxSPIFFEID and maxTrustDomain are the lengths of the SPIFFE ID specification,
	// section 2.3.
	maxSPIFFEID    = 2048
	maxTrustDomain = 255
)

// errSVID is in the chain of every error about a SPIFFE certificate that breaks
// its specification.
var errSVID = errors.New("not a valid SPIFFE certificate")

// checkSVID refuses a leaf certificate with a SPIFFE ID that the X.509-SVID
// specification tells validators to reject (section 5.2), or whose ID the SPIFFE ID
// specification does not allow (sections 2.1 to 2.3). Certificates without a SPIFFE
// ID pass: other URI names have no such rules.
func checkSVID(leaf *x509.Certificate) error {
	id := (*url.URL)(nil)
	for _, u := range leaf.URIs {
		if u.Scheme == spiffeScheme { // the parser has lowered its case
			id = u
		}
	}
	switch {
	case id == nil:
		return nil
	case len(leaf.URIs) > 1:
		// With two names, one could be checked here and the other believed elsewhere.
		return fmt.Errorf("%w: it has %d URI names, want exactly one", errSVID, len(leaf.URIs))
	case leaf.IsCA, leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return fmt.Errorf("%w: a signing certificate must not be used for authentication", errSVID)
	}
	if fault := spiffeIDFault(id); fault != "" {
		return fmt.Errorf("%w: SPIFFE ID %.256q: %s", errSVID, id.String(), fault)
	}
	return nil
}

// spiffeIDFault says what is wrong with the SPIFFE ID of a leaf certificate; "" for
// a valid one.
func spiffeIDFault(id *url.URL) string {
	switch {
	case len(id.String()) > maxSPIFFEID:
		return fmt.Sprintf("longer than %d bytes", maxSPIFFEID)
	case id.Opaque != "", id.Host == "":
		return "no trust domain"
	case id.User != nil:
		return "user information is not allowed"
	case id.RawQuery != "", id.ForceQuery:
		return "a query is not allowed"
	case id.Fragment != "", id.RawFragment != "":
		return "a fragment is not allowed"
	case len(id.Host) > maxTrustDomain:
		return fmt.Sprintf("a trust domain longer than %d bytes", maxTrustDomain)
	case strings.ContainsFunc(id.Host, func(r rune) bool { return !isSPIFFEChar(r) || 'A' <= r && r <= 'Z' }):
		return "the trust domain may have lower-case letters, digits, dots, dashes and underscores only"
	}
	path, ok := strings.CutPrefix(id.EscapedPath(), "/")
	if !ok || path == "" {
		return "no path"
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			return "an empty path segment"
		case segment == ".", segment == "..":
			return "a dot segment in the path"
		case strings.ContainsFunc(segment, func(r rune) bool { return !isSPIFFEChar(r) }):
			return "a path segment may have letters, digits, dots, dashes and underscores only"
		}
	}
	return ""
}

// isSPIFFEChar holds for what the path of a SPIFFE ID is made of.
func isSPIFFEChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '-' || r == '_'
}
