// SPDX-License-Identifier: Apache-2.0

// Package helm tests the charts of the project with Helm's own library: what
// they render, what they refuse, and what `helm install`, `upgrade`, `rollback`
// and `uninstall` do on a real Kubernetes node.
package helm
