// SPDX-License-Identifier: Apache-2.0

// Package resource makes resources of RPCs. A method whose option or overlay entry asks for it reads one resource, or a
// family with a URI template, or lists them.
//
// [New] compiles what an option asks for into a [Method], and [NewSet] puts the methods of a catalog together. [Set.Match]
// finds the method that reads a URI, [Method.Request] fills in its request from the URI, [Method.Contents] takes the contents
// from its response, and [Method.Items] the resources of a list. The call in between, and the policy in front of it, are made
// elsewhere. This package knows no tools: package catalog says in an [RPC] what has to be known of one.
//
// A template that is wrong, and fields that cannot be a part of a URI or contents, are errors at the start, not on the first
// call. All types are immutable and safe for concurrent use.
package resource
