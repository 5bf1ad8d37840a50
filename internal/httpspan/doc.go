// SPDX-License-Identifier: Apache-2.0

// Package httpspan connects the spans of messages with the HTTP requests that they come in. It knows when a request arrived and
// what was done before there was a message, such as authentication, and it gives a span to requests that never become one:
// those that are refused, and streams that belong to no message. So every HTTP request has at least one SERVER span.
//
// [Handler] is the outermost handler of a listener, and [Of] finds the request again. Without tracing there is no such handler,
// and everything works on nil.
package httpspan
