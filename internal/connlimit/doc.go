// SPDX-License-Identifier: Apache-2.0

// Package connlimit bounds the connections of a listener: how many there are in
// total and from one address, and how many requests and how much time each of them
// gets. It stands between the listener and the HTTP server.
//
// A new connection that is over a bound takes the place of one that has been idle
// for a while; where there is none, the new one is closed at once, as proxies do.
// So idle connections never keep out a client who has something to
// ask. What the bounds are is the caller's business; [Fit] says how many
// connections the process has file descriptors for. All of it is safe for
// concurrent use.
package connlimit
