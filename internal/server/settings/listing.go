// SPDX-License-Identifier: Apache-2.0

package settings

import (
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
)

// ListForm says how lists show the schemas of tools.
func ListForm(cfg *configv1.Config) (catalog.ListForm, error) {
	outputs, err := catalog.ParseOutputSchemas(OrElse(cfg.GetCatalog().GetOutputSchemas(), "bounded"))
	return catalog.ListForm{Outputs: outputs, SharedRefs: cfg.GetCatalog().GetSchemaRefs() == "shared"}, err
}

// ListBudget is what a list of tools should cost at most.
func ListBudget(cfg *configv1.Config) listcost.Budget {
	return listcost.Budget{Bytes: int(cfg.GetCatalog().GetListBudgetBytes()), Tokens: int(cfg.GetCatalog().GetListBudgetTokens())}
}

// Listed is a catalog as it is listed to a caller who may see all of it.
func Listed(cfg *configv1.Config, cat *catalog.Catalog) (*catalog.Catalog, error) {
	o := Compact(cfg)
	if o.Mode == compact.Always || o.Mode == compact.Auto && cat.ListExceeds(o.AboveBytes) {
		return cat.Compact()
	}
	return cat, nil
}
