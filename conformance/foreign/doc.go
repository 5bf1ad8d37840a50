// SPDX-License-Identifier: Apache-2.0

// Package foreign puts the sidecar in front of backends that others wrote: grpc-js,
// connect-es and C-core. `make foreign-test` installs them and runs the tests.
package foreign
