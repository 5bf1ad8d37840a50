// SPDX-License-Identifier: Apache-2.0

// Command listsize prints how large the lists of tools of two public APIs are in each form, and how many places for values their
// input schemas have: every place must be there in every form.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// form is a form of lists, with its name.
type form struct {
	name string
	catalog.ListForm
}

// forms are the forms that are compared; the second is the default of the sidecar.
func forms() []form {
	return []form{
		{"all, recursive", catalog.ListForm{Outputs: catalog.AllOutputSchemas}},
		{"bounded, recursive", catalog.ListForm{Outputs: catalog.BoundedOutputSchemas}},
		{"none, recursive", catalog.ListForm{Outputs: catalog.NoOutputSchemas}},
		{"all, shared", catalog.ListForm{Outputs: catalog.AllOutputSchemas, SharedRefs: true}},
		{"bounded, shared", catalog.ListForm{Outputs: catalog.BoundedOutputSchemas, SharedRefs: true}},
		{"none, shared", catalog.ListForm{Outputs: catalog.NoOutputSchemas, SharedRefs: true}},
	}
}

// row is what one form of one API's list has.
type row struct {
	api   string
	form  form
	cost  listcost.List
	found places
}

// measure makes all lists.
func measure(ctx context.Context) ([]row, error) {
	var rows []row
	for _, api := range apis() {
		known := map[bool]places{} // which outputs are shown makes no difference to inputs
		for _, f := range forms() {
			c, err := catalogOf(ctx, api, f.ListForm)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", api.name, err)
			}
			found, ok := known[f.SharedRefs]
			if !ok {
				if found, err = inputPlaces(c); err != nil {
					return nil, fmt.Errorf("%s: %w", api.name, err)
				}
				known[f.SharedRefs] = found
			}
			rows = append(rows, row{api.name, f, dialect.ListCost(c), found})
		}
	}
	return rows, nil
}

func run(ctx context.Context, out io.Writer) error {
	rows, err := measure(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "API\toutput schemas, refs\ttools\tbytes\ttokens\tplaces in inputs\tdigest of the places")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%.16s\n", r.api, r.form.name, r.cost.Tools, r.cost.Bytes, r.cost.Tokens, r.found.count, r.found.digest)
	}
	return table.Flush()
}
