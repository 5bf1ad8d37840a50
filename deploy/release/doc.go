// SPDX-License-Identifier: Apache-2.0

// Package release builds what a release consists of, into one folder: archives,
// packages for Debian, Red Hat, npm and Homebrew, images, Go modules, bills of
// materials, sums and a statement of provenance. Publish sends it to registries.
//
// The same commit, version, Go and key give the same bytes: binaries are built
// once a platform and put into every package, every time is that of the commit,
// and nothing of the machine goes in. Names are in names.json; tests compare what
// cannot read it with it: go.mod, the image's labels, the README and docs.
package release
