// SPDX-License-Identifier: Apache-2.0

// Package protectedresource serves the protected resource metadata (RFC 9728), by which
// a client that was sent here without a token finds the authorization servers of this
// resource. It needs no authentication and may be read by web pages of any origin.
//
// The document names the resource as it is configured. Nothing in it, and nothing in the
// URLs that this package makes, comes from the Host of a request. A [Handler] is safe for
// concurrent use.
package protectedresource
