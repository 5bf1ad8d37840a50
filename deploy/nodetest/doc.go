// SPDX-License-Identifier: Apache-2.0

// Package nodetest tries the rendered manifests and the built images on a real
// Kubernetes node (package node): whether the API server accepts them with Pod
// Security restricted enforced, and whether the pods do what the manifests
// promise. `make k8s-test` runs it; without OUTRIGGER_K8S_TEST=1 its tests are
// skipped, because they take root and minutes.
package nodetest
