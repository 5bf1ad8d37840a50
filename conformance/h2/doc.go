// SPDX-License-Identifier: Apache-2.0

// Package h2 runs HTTP/2 peers that others wrote against the sidecar: h2spec on every listener, and a matrix of
// clients, over h2c and TLS. `make h2-test` installs them and runs the tests, which are skipped otherwise.
package h2
