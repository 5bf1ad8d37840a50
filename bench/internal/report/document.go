// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Markers between which a document's figures stand. What is outside is written by hand.
const (
	Begin = "<!-- figures: begin (written by `make bench BENCHFLAGS=-write`) -->"
	End   = "<!-- figures: end -->"
)

// ErrNoMarkers tells that a document has no place for figures.
var ErrNoMarkers = errors.New("the document lacks the markers between which figures stand, or has them in the wrong order")

// Replace puts figures between the markers of a document.
func Replace(document, figures string) (string, error) {
	head, rest, ok := strings.Cut(document, Begin)
	if !ok {
		return "", ErrNoMarkers
	}
	_, tail, ok := strings.Cut(rest, End)
	if !ok {
		return "", ErrNoMarkers
	}
	return head + Begin + "\n\n" + strings.TrimSpace(figures) + "\n\n" + End + tail, nil
}

// Write does so in a file.
func Write(path, figures string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	out, err := Replace(string(text), figures)
	if err != nil {
		return fmt.Errorf("write figures: %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil { //nolint:gosec // a document is for everybody
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}
