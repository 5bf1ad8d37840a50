// SPDX-License-Identifier: Apache-2.0

// Package longrunning reads and writes the messages of google.longrunning (AIP-151) that
// the sidecar needs: operations, and the requests that get, await and cancel them. It reads
// wire bytes, so that no generated types have to be linked.
//
// It also has what a caller brings back to go on with an operation ([Handle]), what an
// operation's metadata say of its progress ([Report]), and how often to ask ([Pace]).
package longrunning
