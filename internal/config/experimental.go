// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Names of what the sidecar has of drafts of MCP. Each has a page in docs/experimental.
const (
	// ResultVariants is the revision 2026-12-01 with results for different audiences (SEP-3279).
	ResultVariants = "result-variants"
	// RivalAnnotations is the annotations of other MCP servers, read as if they were ours.
	RivalAnnotations = "rival-annotations"
	// ServerCard is a public document about the server (SEP-2127).
	ServerCard = "server-card"
	// SkillCache is cache hints for skills in every revision (ext-skills#138).
	SkillCache = "skill-cache"
	// StructuredDenials is errors that say whether asking for approval can help (SEP-2643).
	StructuredDenials = "structured-denials"
	// ToolDigest is calls that name the tool which their client has seen (transports-wg#50).
	ToolDigest = "tool-digest"
	// ToolManifest is lists of tools by their digests (SEP-2636).
	ToolManifest = "tool-manifest"
	// UnixSocket is callers on a Unix socket, known by the users of their processes.
	UnixSocket = "unix-socket"
)

// Experiments returns all names of the setting `experimental`, in order.
func Experiments() []string {
	return []string{ResultVariants, RivalAnnotations, ServerCard, SkillCache, StructuredDenials, ToolDigest, ToolManifest, UnixSocket}
}

// ExperimentsOf returns the names that are on.
func ExperimentsOf(cfg *configv1.Config) []string { return cfg.GetExperimental() }

// HasExperiment reports whether an experiment is on.
func HasExperiment(cfg *configv1.Config, name string) bool {
	return slices.Contains(ExperimentsOf(cfg), name)
}

// checkExperimental refuses names that there are not: a feature that its operator believes in must not be off.
func (d *draft) checkExperimental(c *configv1.Config) {
	known := Experiments()
	for i, name := range ExperimentsOf(c) {
		if slices.Contains(known, name) {
			continue
		}
		meant := ""
		if near := nearest(name, slices.Values(known)); near != "" {
			meant = fmt.Sprintf("; did you mean %s?", near)
		}
		d.judge(fmt.Sprintf("experimental[%d]", i), fmt.Sprintf("there is no experiment %q%s (there are %s)", name, meant, strings.Join(known, ", ")))
	}
}
