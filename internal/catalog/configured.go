// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/lock"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// BuildOptionsOf say how tools are made of methods by a configuration, and how their messages are
// checked. The selection is that of the configuration.
func BuildOptionsOf(cfg *configv1.Config, selection *Selection) (BuildOptions, error) {
	c := cfg.GetCatalog()
	overrides, err := overridesOf(cfg)
	if err != nil {
		return BuildOptions{}, err
	}
	profile, err := schema.ParseProfile(cfg.GetSchemaProfile())
	if err != nil {
		return BuildOptions{}, err
	}
	reviewed, err := readLock(c)
	if err != nil {
		return BuildOptions{}, err
	}
	outputs, err := parseOutputSchemas(c.GetOutputSchemas())
	if err != nil {
		return BuildOptions{}, err
	}
	runs, _ := RunsPrograms(c)
	b := cfg.GetBackend()
	return BuildOptions{
		Backend: b.GetName(), Prefix: b.GetPrefix(), Timeout: b.GetLimits().GetTimeout().AsDuration(), Services: cfg.GetServices(),
		Listed: ListForm{Outputs: outputs, SharedRefs: c.GetSchemaRefs() == "shared"}, DeclaredOnly: cfg.GetGate() == "marked",
		Selection: selection, Overlay: overrides, Profile: profile,
		Lock: reviewed, RefuseDrift: RefusesDrift(c), Compact: c.GetMode() != "full", Programs: runs,
		Limits: Limits{MaxTools: int(cfg.GetLimits().GetMaxTools())},
		// Where the limit is lower, envelopes are refused before arguments are looked at.
		MaxDepth: max(int(cfg.GetLimits().GetMaxJsonDepth()), defaults.MaxJSONDepth),
	}, nil
}

// RunsPrograms reports whether there is the tool that runs programs, and whether full lists have it too.
func RunsPrograms(c *configv1.Catalog) (runs, inFull bool) {
	mode := c.GetPrograms().GetMode()
	return mode == "on" || mode != "off" && c.GetMode() != "full", mode == "on"
}

// overridesOf are what the configuration says about single tools.
func overridesOf(cfg *configv1.Config) ([]Override, error) {
	var out []Override
	for i, t := range cfg.GetTools() {
		entry := Override{Match: t.GetMethod(), Options: t.GetTool(), Resource: t.GetResource(), Properties: t.GetProperties(), VisibleTo: t.GetVisibleTo()}
		var err error
		if entry.InputSchema, err = schemaText(t.GetInputSchema()); err != nil {
			return nil, fmt.Errorf("tools[%d].input_schema: %w", i, err)
		}
		if entry.OutputSchema, err = schemaText(t.GetOutputSchema()); err != nil {
			return nil, fmt.Errorf("tools[%d].output_schema: %w", i, err)
		}
		out = append(out, entry)
	}
	return out, nil
}

// schemaText is the JSON of a schema out of the file; nil where there is none.
// The order of members is lost by then.
func schemaText(s *structpb.Struct) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	return protojson.Marshal(s)
}

// readLock reads the lock file; nil if there is none.
func readLock(c *configv1.Catalog) (*lock.Lock, error) {
	path := c.GetLockFile()
	if path == "" {
		return nil, nil
	}
	return lock.Read(path)
}

// RefusesDrift reports whether tools that differ from the lock are left out.
func RefusesDrift(c *configv1.Catalog) bool { return c.GetLockMode() == "refuse" }

// CheckLock reads the lock file before a port opens.
func CheckLock(cfg *configv1.Config, report func(path, message string)) {
	c := cfg.GetCatalog()
	if _, err := readLock(c); err != nil {
		report("catalog.lock_file", err.Error()+"; `sidecar lock update` writes one")
	}
	if RefusesDrift(c) && c.GetLockFile() == "" {
		report("catalog.lock_mode", "refuse needs a lock file; set catalog.lock_file (--catalog-lock)")
	}
}

// Check looks at the selection of methods and at the schemas of the overlay.
func Check(cfg *configv1.Config, report func(path, message string)) {
	for _, list := range [...]struct {
		name  string
		globs []string
	}{{"include", cfg.GetCatalog().GetInclude()}, {"exclude", cfg.GetCatalog().GetExclude()}} {
		for i, glob := range list.globs {
			if _, err := compileGlobs(list.name, []string{glob}); err != nil {
				report(fmt.Sprintf("catalog.%s[%d]", list.name, i), err.Error())
			}
		}
	}
	checkSchemas(cfg, report)
}

// checkSchemas looks at the schemas of the overlay, as far as they can be judged without
// knowing the RPC.
func checkSchemas(cfg *configv1.Config, report func(path, message string)) {
	for i, t := range cfg.GetTools() {
		for _, declared := range [...]struct {
			member string
			schema *structpb.Struct
		}{{"input_schema", t.GetInputSchema()}, {"output_schema", t.GetOutputSchema()}} {
			path := fmt.Sprintf("tools[%d].%s", i, declared.member)
			raw, err := schemaText(declared.schema)
			switch {
			case err != nil:
				report(path, "is not valid JSON: "+err.Error())
				continue
			case raw == nil:
				continue
			}
			_, faults := compileDeclared(raw)
			for _, fault := range faults {
				message := fault.Message
				if fault.Path != "" {
					message = "at " + fault.Path + ": " + message
				}
				report(path, message)
			}
		}
	}
}
