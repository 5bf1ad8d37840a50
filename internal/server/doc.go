// SPDX-License-Identifier: Apache-2.0

// Package server assembles a sidecar: the backend, the catalog and the bridge in front
// of it, the edges, and what a long-running process needs besides. The command and the
// package outrigger use this one assembly.
//
//	New       the pipeline: backend.go, pipeline.go. Commands that call once need no more.
//	Prepare   what callers and operators meet: edges.go, metrics.go
//	Listen    opens the ports (internal/server/listen)
//	Run       keeps the catalog fresh until its context ends: run.go
//	drain     answers what is in flight, and lets callers go: drain.go
//
// Each part that needs no other is a package below this one, such as listen (listeners),
// route (edges and their paths), auth (callers and operators), pressure (load shedding),
// upstream (the state of the backend) and follow (changes that a backend reports).
package server
