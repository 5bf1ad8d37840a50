// SPDX-License-Identifier: Apache-2.0

// Package artifacts tests OCI artifacts as sources of descriptors with a registry that others wrote, and artifacts that are
// pushed as people push them.
//
// It is its own module, so that nothing else in the repository depends on the registry.
package artifacts
