// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	usageWidth  = 100 // columns of a help text; narrower terminals wrap on their own
	usageIndent = 6   // of a flag's text below its name
)

// FlagUsages renders the help for a command's flags: the command's own first,
// then those of RegisterFlags in groups, each with its default.
func FlagUsages(flags *pflag.FlagSet) string {
	grouped := make(map[string][]*pflag.Flag)
	order := []string{"Flags"}
	ours := make(map[string]bool)
	for _, b := range bindings() {
		f := flags.Lookup(b.flag)
		if f == nil {
			continue
		}
		if _, ok := f.Value.(*rawValue); !ok {
			continue
		}
		ours[b.flag] = true
		if !slices.Contains(order, b.group) {
			order = append(order, b.group)
		}
		grouped[b.group] = append(grouped[b.group], f)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !ours[f.Name] && !f.Hidden {
			grouped["Flags"] = append(grouped["Flags"], f)
		}
	})

	var b strings.Builder
	for _, group := range order {
		if len(grouped[group]) == 0 {
			continue
		}
		b.WriteString(group + ":\n")
		for _, f := range grouped[group] {
			writeFlag(&b, f)
		}
		b.WriteString("\n")
	}
	if len(ours) > 0 {
		b.WriteString(wrap("Any of these flags can be an environment variable: --max-depth is "+envName("max-depth")+
			". A flag wins over the environment, and both win over the file. Lists are separated by commas, or the flag is repeated. "+
			"Durations have units: 300ms, 30s, 1m30s.", 0))
	}
	return b.String()
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	b.WriteString("  ")
	if f.Shorthand != "" {
		b.WriteString("-" + f.Shorthand + ", ")
	}
	b.WriteString("--" + f.Name)
	if kind := f.Value.Type(); kind != "bool" {
		b.WriteString(" " + kind)
	}
	text := f.Usage
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
		text += " (default " + f.DefValue + ")"
	}
	b.WriteString("\n" + wrap(text, usageIndent))
}

// wrap breaks a text between words.
func wrap(text string, indent int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", indent))
			column = indent
		case column+1+len(word) > usageWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// NearestFlag returns the flag that an unknown one was probably meant to be,
// without dashes, or "".
func NearestFlag(flags *pflag.FlagSet, wrong string) string {
	known := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	return nearest(wrong, slices.Values(slices.Sorted(maps.Keys(known))))
}
