// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// AsksNative reports whether to ask the backend for its own tools: if reflection
// is used, because the backend must then be available anyway, or if it is enabled
// explicitly.
func AsksNative(c *configv1.Catalog, hasBackend bool) bool {
	auto := !MakesTools(c)
	return hasBackend && (c.GetNative() == "on" || auto && c.GetNative() != "off")
}

// Origins are the sources of tools other than files.
type Origins struct {
	// Client is nil without a backend. Native is nil if the backend is not asked for
	// its own tools.
	Client *backend.Client
	Native *backend.NativeClient
	// More are sources that are not in the configuration.
	More []source.Source
}

// Plan has the sources of tools and the build options, for a configuration that
// may be newer than that at startup.
func Plan(cfg *configv1.Config, from Origins) ([]source.Source, catalog.BuildOptions, error) {
	c := cfg.GetCatalog()
	selection, err := catalog.NewSelection(c.GetInclude(), c.GetExclude())
	if err != nil {
		return nil, catalog.BuildOptions{}, err
	}
	sources := slices.Clone(from.More)
	bounds := source.Limits{MaxBytes: int(cfg.GetLimits().GetMaxDescriptorBytes()), FetchTimeout: c.GetFetchTimeout().AsDuration()}
	var described []source.Source
	for _, ref := range c.GetDescriptors() {
		one, err := DescriptorSource(ref, bounds, FetchOptions(c))
		if err != nil {
			return nil, catalog.BuildOptions{}, fmt.Errorf("catalog.descriptors: %w", err)
		}
		described = append(described, one)
	}
	if !AddsComments(c) {
		sources, described = append(sources, described...), nil
	}
	// Descriptor files say which services there are; reflection is asked where
	// nothing else does, or where it is asked for by name.
	auto := from.Client != nil && len(sources) == 0
	isNative := c.GetNative() == "on"
	reflects := c.GetReflection() == "on" || len(described) > 0 || auto && c.GetReflection() != "off" && !isNative
	var reflection source.Reflection
	if from.Client != nil && reflects {
		reflection = backend.NewReflectionSource(from.Client, source.ReflectionOptions{Selection: selection, Limits: bounds})
		var reflected source.Source = reflection
		if len(described) > 0 {
			reflected = source.NewCommented(reflected, selection, described...)
		}
		sources = append(sources, reflected)
	}
	if from.Native != nil {
		native := backend.NewNativeSource("tool API at "+from.Client.Target().String(), from.Native, isNative)
		if !isNative && reflection != nil {
			native = source.WhenListed(native, reflection, outriggerv1connect.ToolServiceName)
		}
		sources = append(sources, native)
	}
	if len(sources) == 0 {
		return nil, catalog.BuildOptions{}, errors.New("catalog: no source of tools: set --descriptors, or keep reflection enabled")
	}
	build, err := buildOptions(cfg, selection)
	if from.Client != nil {
		build.LacksHTTP2 = from.Client.LacksHTTP2
	}
	return sources, build, err
}

// Compact says when three tools stand for all.
func Compact(cfg *configv1.Config) compact.Options {
	o := compact.Options{AboveBytes: int(cfg.GetCatalog().GetCompactAboveBytes())}
	switch cfg.GetCatalog().GetMode() {
	case "compact":
		o.Mode = compact.Always
	case "auto":
		o.Mode = compact.Auto
	}
	return o
}

// buildOptions say how tools are made of methods, and how their messages are
// checked.
func buildOptions(cfg *configv1.Config, selection *catalog.Selection) (catalog.BuildOptions, error) {
	overrides, err := overlay(cfg)
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	profile, err := schema.ParseProfile(OrElse(cfg.GetSchemaProfile(), schema.ProfileMCP.String()))
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	reviewed, err := catalogLock(cfg)
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	listed, err := ListForm(cfg)
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	scope, err := GateScope(cfg)
	if err != nil {
		return catalog.BuildOptions{}, err
	}
	return catalog.BuildOptions{
		Listed: listed, DeclaredOnly: scope == policy.Marked,
		Selection: selection, Overlay: overrides, Profile: profile,
		Lock: reviewed, RefuseDrift: RefusesDrift(cfg), Compact: Compact(cfg).IsOffered(),
		Limits: catalog.Limits{MaxTools: int(cfg.GetLimits().GetMaxTools())},
		// Where the limit is lower, envelopes are refused before arguments are looked at.
		MaxDepth: max(int(cfg.GetLimits().GetMaxJsonDepth()), defaults.MaxJSONDepth),
	}, nil
}
