// SPDX-License-Identifier: Apache-2.0

// Package observability has no code: its tests hold the dashboards, the rules, the configuration of the collector and the
// runbooks to what the sidecar exposes.
package observability
