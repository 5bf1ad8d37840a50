// SPDX-License-Identifier: Apache-2.0

// Package settings turns parts of a configuration into what the parts of a sidecar
// take: options, limits, sources of tools, callers. It also has the checks that a
// configuration has to pass before a port opens. Its functions read files at most;
// they start nothing and keep nothing.
package settings
