// SPDX-License-Identifier: Apache-2.0

// Package k8s renders the project's manifests with Kustomize, as
// `kubectl apply -k` does, so that tests can look at what a cluster would get.
package k8s
