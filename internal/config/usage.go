// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

const (
	usageWidth  = 100    // columns of a help text; narrower terminals wrap on their own
	usageIndent = 6      // of a flag's text below its name
	unbroken    = "\x00" // a space at which no line ends
)

// FlagUsages renders the help for all flags of a command: the command's own
// first, then those of RegisterFlags in groups, each with its default.
func FlagUsages(flags *pflag.FlagSet) string { return renderFlags(flags, true) }

// CommonFlagUsages renders the same help with only the most common flags, and
// mentions --help-all if it leaves any out. Where there are few, it shows them all.
func CommonFlagUsages(flags *pflag.FlagSet) string { return renderFlags(flags, HasFewFlags(flags)) }

// fewFlags is the number of flags of RegisterFlags that fit into any help.
const fewFlags = 8

// HasFewFlags reports whether a command has so few flags of RegisterFlags that its help shows them all.
func HasFewFlags(flags *pflag.FlagSet) bool {
	n := 0
	for _, b := range bindings() {
		if flags.Lookup(b.flag) != nil {
			n++
		}
	}
	return n <= fewFlags
}

func renderFlags(flags *pflag.FlagSet, all bool) string {
	grouped := make(map[string][]*pflag.Flag)
	order := []string{"Flags"}
	ours, left := make(map[string]bool), 0
	for _, b := range bindings() {
		f := flags.Lookup(b.flag)
		if f == nil {
			continue
		}
		if _, ok := f.Value.(*rawValue); !ok {
			continue
		}
		ours[b.flag] = true
		if !all && !b.common {
			left++
			continue
		}
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
	if left > 0 {
		fmt.Fprintf(&b, "%d more flags: use --help-all to see them all.\n\n", left)
	}
	if len(ours) > 0 {
		b.WriteString(Wrap("Every flag can also be set by an environment variable: --log-level is "+envName("log-level")+
			". Flags override environment variables, and both override the file. Commas separate list items. "+
			"Durations have units (300ms, 1m30s); sizes are bytes or have units (4MiB). OTEL_* variables set up telemetry.", 0, usageWidth))
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
		text += " (default" + unbroken + f.DefValue + ")"
	}
	b.WriteString("\n" + strings.ReplaceAll(Wrap(text, usageIndent, usageWidth), unbroken, " "))
}

// Wrap breaks a text between words into lines of at most width columns, each behind the indent. A longer word has a line alone.
func Wrap(text string, indent, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", indent))
			column = indent
		case column+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String() + "\n"
}

// NearestFlag returns the flag that an unknown one was probably meant to be,
// without dashes, or "" if there is none.
func NearestFlag(flags *pflag.FlagSet, wrong string) string {
	known := make(map[string]bool)
	flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	return nearest(wrong, slices.Values(slices.Sorted(maps.Keys(known))))
}
