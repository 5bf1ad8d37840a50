// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// makesTools reports whether tools are made of descriptors, in place of reflection.
func makesTools(c *configv1.Catalog) bool {
	return len(c.GetDescriptors()) > 0 && !source.AddsComments(c)
}

// asksNative reports whether to ask the backend for its own tools: if reflection
// is used, because the backend must then be available anyway, or if it is enabled
// explicitly.
func asksNative(c *configv1.Catalog) bool {
	return c.GetNative() == "on" || !makesTools(c) && c.GetNative() != "off"
}

// Origins are the sources of tools other than files.
type Origins struct {
	// Client is nil without a backend. Native is nil if the backend is not asked for
	// its own tools.
	Client *backend.Client
	Native *backend.NativeClient
	// Keep, if set, gets what a native backend offers, after each load that brings something new.
	Keep func(*source.Native)
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
		one, err := source.FromReference(ref, bounds, source.FetchOptions{Config: c})
		if err != nil {
			return nil, catalog.BuildOptions{}, fmt.Errorf("catalog.descriptors: %w", err)
		}
		described = append(described, one)
	}
	if !source.AddsComments(c) {
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
		if from.Keep != nil {
			native = source.Keeping(native, from.Keep)
		}
		sources = append(sources, native)
	}
	if len(sources) == 0 {
		return nil, catalog.BuildOptions{}, errors.New("catalog: no source of tools: set --descriptors, or keep reflection enabled")
	}
	build, err := catalog.BuildOptionsOf(cfg, selection)
	build.Rivals = config.HasExperiment(cfg, config.RivalAnnotations)
	if from.Client != nil {
		build.LacksHTTP2 = from.Client.LacksHTTP2
	}
	return sources, build, err
}

// described is the catalog of the descriptor files of a configuration alone; nil if there are none, if some
// have to be fetched first, or if they cannot be used, which is reported elsewhere.
func described(cfg *configv1.Config) *catalog.Catalog {
	if !makesTools(cfg.GetCatalog()) || slices.ContainsFunc(cfg.GetCatalog().GetDescriptors(), source.IsRemote) {
		return nil
	}
	sources, build, err := Plan(cfg, Origins{})
	if err != nil {
		return nil
	}
	var loads []*source.Loaded
	for _, s := range sources {
		loaded, err := s.Load(context.Background())
		if err != nil {
			return nil
		}
		loads = append(loads, loaded)
	}
	cat, err := catalog.Build(loads, build)
	if err != nil {
		return nil
	}
	return cat
}
