// SPDX-License-Identifier: Apache-2.0

// Package settings converts parts of a configuration to options, limits, sources
// of tools and callers. It also has the checks that a configuration must pass
// before a port opens. Its functions only read files; they start nothing and keep
// nothing.
package settings
