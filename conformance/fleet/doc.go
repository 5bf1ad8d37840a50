// SPDX-License-Identifier: Apache-2.0

// Package fleet tests replicas that share state: against real NATS servers, in this
// process and as the binary. Package robustness breaks real processes at random, and package
// sim simulates replicas, network and servers from one seed.
package fleet
