// SPDX-License-Identifier: Apache-2.0

package compact

// Mode says when three tools stand for all: one that searches the catalog, one that describes a tool and one that calls a
// tool.
type Mode uint8

// The modes. Never is the zero value: all tools are listed, and these three do not exist. With Always they are what is
// listed; all others can still be called by their names. With Auto that holds if the list of all tools that a caller sees is
// larger than a budget. The three can be called in both.
const (
	Never Mode = iota
	Always
	Auto
)

// Options configure the compact form of catalogs.
type Options struct {
	Mode Mode
	// AboveBytes is the size of a list above which Auto makes it compact.
	AboveBytes int
}

// IsOffered reports whether the three tools exist.
func (o Options) IsOffered() bool { return o.Mode != Never }

// List is which tools a list has.
type List uint8

// The lists. ListByMode is what [Options] say.
const (
	ListAll List = iota
	ListByMode
	ListCompact
)
