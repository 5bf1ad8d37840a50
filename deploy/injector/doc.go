// SPDX-License-Identifier: Apache-2.0

// Package injector runs package inject in a cluster: an admission webhook for
// pods that are created, and a sweep by one replica that reports pods that
// started without the sidecar. Replicas share one serving certificate, which they
// make and rotate in a Secret.
//
// The webhook allows every pod. What it cannot do is a warning for who creates the
// pod, a line of the audit trail, a count, and, by the sweep, an event on the pod.
package injector
