// SPDX-License-Identifier: Apache-2.0

// Package robustness breaks a deployment of three replicas at random and checks what its clients saw: three
// processes of the real binary behind a plain TCP balancer, a cluster of three NATS servers behind proxies, and one
// backend that counts its calls. Each operation of each client goes into a history, and porcupine decides whether a
// model of what is promised could have given that history. conformance/faults/README.md says what is promised and how to run it.
package robustness
