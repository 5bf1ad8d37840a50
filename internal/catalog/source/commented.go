// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// commented is a Source whose files get comments from those of others.
type commented struct {
	from      Source
	selection Selection
	by        []Source
}

// NewCommented returns a source that loads from one source, and adds the comments that its files lack from others. Symbols
// are matched by full name, whatever files they are in: services, methods, messages, fields, oneofs, enums and their values.
// A comment is used if both have the symbol in the same form. Differences are warnings, and so is a service that only the
// others have, unless the selection skips it.
//
// It fails if one of the sources fails.
func NewCommented(from Source, selection Selection, by ...Source) Source {
	return &commented{from: from, selection: selection, by: slices.Clone(by)}
}

func (c *commented) Name() string {
	names := make([]string, 0, len(c.by))
	for _, s := range c.by {
		names = append(names, s.Name())
	}
	return c.from.Name() + " with comments from " + shown.ClipList(names)
}

func (c *commented) Load(ctx context.Context) (*Loaded, error) { return c.LoadUnless(ctx, nil) }

// commentedMemory has the revisions of all sources, the one with the files first.
type commentedMemory []*Revision

// LoadUnless implements Conditional. A change of one source loads all of them, since a comment depends on two.
func (c *commented) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	sources := append([]Source{c.from}, c.by...)
	if before != nil {
		known, _ := before.Memory.(commentedMemory)
		if isSame, err := unchanged(ctx, sources, known); err != nil || isSame {
			return nil, err
		}
		return c.Recall(ctx, known)
	}
	return c.Recall(ctx, nil)
}

// Recall implements Recaller, for the sources of comments and of files.
func (c *commented) Recall(ctx context.Context, used []*Revision) (*Loaded, error) {
	for _, revision := range used {
		if revision == nil {
			continue
		}
		if parts, ok := revision.Memory.(commentedMemory); ok {
			used = slices.Concat(used, parts)
		}
	}
	sources := append([]Source{c.from}, c.by...)
	loads := make([]*Loaded, 0, len(sources))
	now, sum, canTell := commentedMemory{}, newSummer(), true
	for _, s := range sources {
		loaded, err := Recall(ctx, s, used)
		if err != nil {
			return nil, err
		}
		loads, now = append(loads, loaded), append(now, loaded.Revision)
		if canTell = canTell && loaded.Revision != nil; canTell {
			sum.add(loaded.Revision.Digest[:])
		}
	}
	out := c.comment(loads[0], loads[1:])
	if out.Revision = nil; canTell {
		out.Revision = &Revision{Digest: sum.sum(), Memory: now}
	}
	return out, nil
}

// unchanged reports whether all sources still are at the revisions.
func unchanged(ctx context.Context, sources []Source, known commentedMemory) (bool, error) {
	if len(known) != len(sources) || slices.Contains(known, nil) {
		return false, nil
	}
	for i, s := range sources {
		if loaded, err := Load(ctx, s, known[i]); err != nil || loaded != nil {
			return false, err
		}
	}
	return true, nil
}

// description is a symbol as the sources of comments have it.
type description struct {
	symbol

	leading, trailing *string
	from              string
	// isMet is set when the source of the files has the symbol too.
	isMet bool
}

// comment returns the load with comments.
func (c *commented) comment(loaded *Loaded, by []*Loaded) *Loaded {
	known, order := describe(by)
	out := *loaded
	out.Source, out.Files, out.Warnings = c.Name(), make([]*descriptorpb.FileDescriptorProto, 0, len(loaded.Files)), slices.Clone(loaded.Warnings)
	for _, l := range by {
		out.Warnings = append(out.Warnings, l.Warnings...)
	}
	d := &differences{known: known, present: map[string]bool{}}
	for _, f := range loaded.Files {
		out.Files = append(out.Files, d.comment(f))
	}
	d.unmet(order, func(service string) bool {
		if c.selection == nil {
			return IsInfrastructure(service)
		}
		return c.selection.Skips(service)
	})
	out.Warnings = append(out.Warnings, d.warnings(c.Name())...)
	return &out
}

// describe collects the symbols of files with their comments, by name, and the names in order. The first of two wins, unless
// it has no comment.
func describe(by []*Loaded) (known map[string]*description, order []string) {
	known = map[string]*description{}
	for _, l := range by {
		for _, f := range l.Files {
			comments := locations(f)
			symbolsOf(f, func(s symbol) {
				d := &description{symbol: s, from: l.Source}
				if at := comments[pathKey(s.path)]; at != nil {
					d.leading, d.trailing = at.LeadingComments, at.TrailingComments
				}
				before := known[s.name]
				if before == nil {
					order = append(order, s.name)
				}
				if before == nil || !before.hasComment() && d.hasComment() {
					known[s.name] = d
				}
			})
		}
	}
	return known, order
}

func (d *description) hasComment() bool { return d.leading != nil || d.trailing != nil }

// locations are the places of a file that have a comment, by path. The first of two counts.
func locations(f *descriptorpb.FileDescriptorProto) map[string]*descriptorpb.SourceCodeInfo_Location {
	out := map[string]*descriptorpb.SourceCodeInfo_Location{}
	for _, l := range f.GetSourceCodeInfo().GetLocation() {
		if l.LeadingComments == nil && l.TrailingComments == nil {
			continue
		}
		if key := pathKey(l.GetPath()); out[key] == nil {
			out[key] = l
		}
	}
	return out
}

// pathKey is a path as the key of a map.
func pathKey(path []int32) string {
	key := make([]byte, 0, 4*len(path))
	for _, n := range path {
		key = append(key, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return string(key)
}

// differences are where two descriptions of a symbol differ.
type differences struct {
	known   map[string]*description
	present map[string]bool // names that the files have
	list    []Warning
	more    int
}

// maxDifferences bounds the differences that are named.
const maxDifferences = 20

func (d *differences) add(symbol, format string, args ...any) {
	if len(d.list) == maxDifferences {
		d.more++
		return
	}
	d.list = append(d.list, Warning{shown.Clip(symbol), fmt.Sprintf(format, args...)})
}

func (d *differences) warnings(source string) []Warning {
	if d.more == 0 {
		return d.list
	}
	return append(d.list, Warning{source, fmt.Sprintf("%d more differences between what the backend reflects and the descriptors", d.more)})
}

// comment returns a file with the comments that it lacks. What it shares with the given one is not changed.
func (d *differences) comment(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	own := locations(f)
	var added []*descriptorpb.SourceCodeInfo_Location
	symbolsOf(f, func(s symbol) {
		d.present[s.name] = true
		described := d.known[s.name]
		switch {
		case described == nil:
			if d.known[s.parent] != nil {
				d.add(s.name, "the backend has it, and the descriptors do not; its comment is missing")
			}
			return
		case described.shape != s.shape:
			described.isMet = true
			d.add(s.name, "the backend has %s, %s has %s; its comment is not used", shown.Clip(s.shape), described.from, shown.Clip(described.shape))
			return
		}
		described.isMet = true
		if described.hasComment() && own[pathKey(s.path)] == nil {
			added = append(added, &descriptorpb.SourceCodeInfo_Location{
				Path: s.path, Span: []int32{0, 0, 0}, LeadingComments: described.leading, TrailingComments: described.trailing,
			})
		}
	})
	if len(added) == 0 {
		return f
	}
	out := bare(f)
	out.ProtoReflect().SetUnknown(f.ProtoReflect().GetUnknown())
	// Ours stand first, because the first of two places with one path counts.
	out.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: append(added, f.GetSourceCodeInfo().GetLocation()...)}
	return out
}

// unmet names what only the descriptors have: parts of what the backend has too, and services.
func (d *differences) unmet(order []string, skips func(service string) bool) {
	for _, name := range order {
		described := d.known[name]
		switch {
		case described.isMet:
		case described.parent != "" && d.present[described.parent]:
			d.add(name, "%s has it, and the backend does not", described.from)
		case described.shape == "service" && !skips(name) && !strings.HasPrefix(name, "google."):
			d.add(name, "%s has this service, and the backend does not reflect it; no tools are made of it", described.from)
		}
	}
}
