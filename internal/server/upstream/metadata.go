// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"slices"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

const (
	// noSubject is the setting of a header that tells the backend nothing.
	noSubject = "off"
	// namesCaller is the mode of backend.identity in which a header names the caller.
	namesCaller = "header"
)

// NamesCaller reports whether a header names the caller to the backend.
func NamesCaller(cfg *configv1.Config) bool {
	return cfg.GetBackend().GetIdentity().GetMode() == namesCaller
}

// SubjectHeader returns the header with the caller's name for the backend; empty if
// there is none. Even then a caller's own header of the default name is not forwarded,
// because it is not on the allow-list.
func SubjectHeader(cfg *configv1.Config) string {
	if name := cfg.GetAccess().GetSubjectHeader(); name != noSubject {
		return name
	}
	return ""
}

// checkSubjectHeader looks at the name of the header that names the caller.
func checkSubjectHeader(cfg *configv1.Config, report func(path, message string)) {
	if subject := SubjectHeader(cfg); subject != "" {
		if _, err := backend.NewMetadataRules([]string{subject}, nil); err != nil {
			report("access.subject_header", err.Error())
		}
	}
}

// inboundMetadata are the headers that are forwarded to the backend.
func inboundMetadata(cfg *configv1.Config) []string {
	names := slices.Clone(cfg.GetBackend().GetMetadata().GetInbound())
	if subject := SubjectHeader(cfg); NamesCaller(cfg) && subject != "" && !slices.Contains(names, subject) {
		names = append(names, subject)
	}
	return names
}

// metadataOf returns which headers pass between callers and the backend.
func metadataOf(cfg *configv1.Config) (backend.MetadataRules, error) {
	rules, err := backend.NewMetadataRules(inboundMetadata(cfg), cfg.GetBackend().GetMetadata().GetOutbound())
	if err != nil {
		return backend.MetadataRules{}, err
	}
	baggage, err := backend.NewBaggage(cfg.GetTelemetry().GetBaggage())
	if err != nil {
		return backend.MetadataRules{}, fmt.Errorf("telemetry.baggage: %w", err)
	}
	return rules.WithBaggage(baggage), nil
}
