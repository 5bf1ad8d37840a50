// SPDX-License-Identifier: Apache-2.0

// Package connlimit limits the connections of a listener: their number in total
// and per address, and the requests and the age of each connection. It is between
// the listener and the HTTP server.
//
// A new connection over a limit replaces one that has been idle for a while. If
// there is none, the new one is closed at once, as proxies do. So idle connections
// never block an active client. The caller sets the limits; [Fit] returns how many
// connections the process has file descriptors for. All of it is safe for
// concurrent use.
package connlimit
