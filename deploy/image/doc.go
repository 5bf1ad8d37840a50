// SPDX-License-Identifier: Apache-2.0

// Package image builds the project's container images without a container
// engine: a static binary on an empty base, one image for each platform, in one
// OCI archive, with a bill of materials for each beside it.
//
// The same sources, version, commit and Go give the same bytes: paths are
// trimmed from the binary, every time is that of the commit, and nothing of the
// machine goes in. Archives are what `ctr images import`, `podman load`,
// `skopeo copy oci-archive:` and `crane push` (of the unpacked folder) take.
package image
