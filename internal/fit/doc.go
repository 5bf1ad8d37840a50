// SPDX-License-Identifier: Apache-2.0

// Package fit knows how much of a result a caller wants, and what to say about a result that was cut: the members of _meta for both,
// and the text for models. Package bridge decides what is left out.
package fit
