// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/schema"
	"github.com/outrigger-mcp/outrigger/bridge/transcode"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// buildOptions say how tools are made of methods, and how their messages are
// checked.
func (a *app) buildOptions(cfg *configv1.Config, selection *catalog.Selection) (catalog.BuildOptions, error) {
	overrides, err := overlay(cfg)
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	profile, err := schema.ParseProfile(orElse(cfg.GetSchemaProfile(), schema.ProfileMCP.String()))
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	return catalog.BuildOptions{
		Selection: selection, Overlay: overrides, Profile: profile,
		ListUncallable: cfg.GetCatalog().GetListUncallable(),
		Thorough:       cfg.GetValidate() == "full", Disagreed: a.disagreed,
		// Where the limit is lower, envelopes are refused before arguments are looked at.
		MaxDepth: max(a.limits.MaxDepth, schema.DefaultMaxDepth),
	}, nil
}

// disagreed counts and logs what the checks of one message do not agree on.
// What callers sent is not in it.
func (a *app) disagreed(e *transcode.DisagreementError) {
	a.disagreements.Add(1)
	a.log.Error("validators disagree about a message: this is a bug in the sidecar; --validate standard turns the comparison off",
		zap.String("message", e.Message), zap.String("what", e.What))
}
