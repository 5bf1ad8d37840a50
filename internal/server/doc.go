// SPDX-License-Identifier: Apache-2.0

// Package server assembles a sidecar: the backend, the catalog and the bridge in front
// of it, the edges, and what a long-running process needs besides. The command and the
// package outrigger use this one assembly.
//
//	New       the pipeline: app.go, pipeline.go. Commands that call once need no more.
//	Prepare   what callers and operators meet: prepare.go, metrics.go
//	Listen    opens the ports
//	Run       keeps the catalog fresh until its context ends: run.go
//	drain     answers what is in flight, and lets callers go: drain.go
//
// Each part is a package below this one: front (listeners, authentication, load shedding, edges),
// upstream (the backend), replicas (what replicas share), announce (what operators should know of a catalog), reconfigure
// (changed files), admin (the pages of operators) and lifecycle.
package server
