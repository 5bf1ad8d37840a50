// SPDX-License-Identifier: Apache-2.0

// Package inject decides whether a pod gets the sidecar, and which edits put it
// there. It has neither a clock nor a network: the same pod and namespace give the
// same decision in the admission webhook, in the sweep for missed pods and
// offline.
//
// What is injected is the patch of deploy/k8s/components/sidecar, changed by the
// annotations of the pod and its namespace (see [Annotations]). [Injector.Decide]
// returns [Edit] values; [Decision.JSONPatch] renders them for the API server and
// [Injector.Documents] as text in YAML documents.
package inject
