// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Section is a place of a document where the figures of one benchmark stand, between two markers. What is outside is
// written by hand.
type Section struct{ Begin, End string }

// SectionOf is the place of the figures that a target of the Makefile writes.
func SectionOf(target string) Section {
	name := "figures"
	if target != "bench" {
		name = strings.TrimPrefix(target, "bench-")
	}
	return Section{
		Begin: "<!-- " + name + ": begin (written by `make " + target + " BENCHFLAGS=-write`) -->",
		End:   "<!-- " + name + ": end -->",
	}
}

// ErrNoMarkers tells that a document has no place for figures.
var ErrNoMarkers = errors.New("the document lacks the markers between which figures stand, or has them in the wrong order")

// Replace puts figures between the markers of a document.
func (s Section) Replace(document, figures string) (string, error) {
	head, rest, ok := strings.Cut(document, s.Begin)
	if !ok {
		return "", ErrNoMarkers
	}
	_, tail, ok := strings.Cut(rest, s.End)
	if !ok {
		return "", ErrNoMarkers
	}
	return head + s.Begin + "\n\n" + strings.TrimSpace(figures) + "\n\n" + s.End + tail, nil
}

// Write does so in a file.
func (s Section) Write(path, figures string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	out, err := s.Replace(string(text), figures)
	if err != nil {
		return fmt.Errorf("write figures: %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil { //nolint:gosec // a document is for everybody
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}
