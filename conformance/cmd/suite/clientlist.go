// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// clientChecks are the rows of the table, as checks.mjs and the tests of the Go
// SDK name them. Every run reports each of them once.
func clientChecks() []string {
	return []string{
		"connect", "list", "call", "headers", "content", "errors", "resources", "prompts", "completion", "progress", "cancel",
		"elicitation", "sampling", "roots", "rounds", "no capabilities", "changes", "subscribe", "logs", "log level", "resume",
		"end session", "tasks",
	}
}

// clientRun is one process that reports on a client.
type clientRun struct {
	script, mode string
	stdio        bool
}

// goScript represents the tests of the Go SDK, which report on all of its modes.
const goScript = "go"

// clientRuns is every run, those that take long first, because they run side by
// side. mcp-remote is a bridge from stdio to HTTP, so it has one way to the
// sidecar. The Inspector takes a process a request: what does not depend on
// requests that belong together, conformance/inspector.sh tries in every era and
// over both transports.
func clientRuns() []clientRun {
	return []clientRun{
		{script: "inspector", mode: "auto"},
		{script: "inspector", mode: "legacy"},
		{script: goScript},
		{script: "remote", mode: "legacy"},
		{script: "remote", mode: "auto"},
		{script: "typescript", mode: "legacy"},
		{script: "typescript", mode: "legacy", stdio: true},
		{script: "typescript", mode: "auto"},
		{script: "typescript", mode: "auto", stdio: true},
		{script: "typescript", mode: "2026-07-28"},
		{script: "typescript", mode: "2026-07-28", stdio: true},
		{script: "sdk1", mode: "legacy"},
		{script: "sdk1", mode: "legacy", stdio: true},
		{script: "aisdk", mode: "legacy"},
		{script: "aisdk", mode: "legacy", stdio: true},
		{script: "aisdk", mode: "auto"},
		{script: "aisdk", mode: "auto", stdio: true},
		{script: "openai", mode: "auto"},
		{script: "openai", mode: "auto", stdio: true},
	}
}

// scripts names every client that can be run.
func scripts() []string {
	var names []string
	for _, r := range clientRuns() {
		if !slices.Contains(names, r.script) {
			names = append(names, r.script)
		}
	}
	return names
}

// name is what the files of the run are called.
func (r clientRun) name() string {
	name := r.script
	if r.mode != "" {
		name += "-" + r.mode
	}
	if r.stdio {
		name += "-stdio"
	}
	return name
}

// Outcomes of a check, as the scripts say them.
const (
	outcomeOK          = "ok"
	outcomeFailed      = "failed"
	outcomeUnsupported = "unsupported" // by the client
	outcomeAbsent      = "absent"      // from the revision, or the transport
)

// clientCheck is the line that a run prints about one check.
type clientCheck struct {
	Client    string `json:"client"`
	Version   string `json:"version"`
	Mode      string `json:"mode"`
	Transport string `json:"transport"`
	Check     string `json:"check"`
	Outcome   string `json:"outcome"`
	Reason    string `json:"reason,omitempty"`
	Error     string `json:"error,omitempty"`
}
