// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Check looks at what is forwarded to the backend and from it, and at what the sidecar shows it.
func Check(cfg *configv1.Config, report func(path, message string)) {
	checkMetadata(cfg, report)
	checkBaggage(cfg, report)
	checkCredentials(cfg, report)
	if target, err := ParseTarget(cfg.GetBackend().GetUrl()); err == nil && !target.spread && !isDefault(cfg.GetBackend().GetBalance()) {
		report("backend.balance", errBalanceUnused.Error())
	}
}

// checkMetadata checks the metadata allow-lists.
func checkMetadata(cfg *configv1.Config, report func(path, message string)) {
	lists := cfg.GetBackend().GetMetadata()
	for i, pattern := range lists.GetInbound() {
		if _, err := NewMetadataRules([]string{pattern}, nil); err != nil {
			report(fmt.Sprintf("backend.metadata.inbound[%d]", i), err.Error())
		}
	}
	for i, pattern := range lists.GetOutbound() {
		if _, err := NewMetadataRules(nil, []string{pattern}); err != nil {
			report(fmt.Sprintf("backend.metadata.outbound[%d]", i), err.Error())
		}
	}
}

// checkBaggage checks the allow-list for members of baggage.
func checkBaggage(cfg *configv1.Config, report func(path, message string)) {
	for i, name := range cfg.GetTelemetry().GetBaggage() {
		if _, err := NewBaggage([]string{name}); err != nil {
			report(fmt.Sprintf("telemetry.baggage[%d]", i), err.Error())
		}
	}
}

// checkCredentials reads the files of the backend's credentials before a port
// opens, so that what is wrong with them is reported with everything else.
func checkCredentials(cfg *configv1.Config, report func(path, message string)) {
	b := cfg.GetBackend()
	target, err := ParseTarget(b.GetUrl())
	if err != nil {
		return // there is no backend, or it is the demo on loopback, or the URL is refused by itself
	}
	for _, one := range CredentialParts(b) {
		if _, err := readCredentials(one.Of, target); err != nil {
			report(one.Path, err.Error())
			return
		}
	}
	switch _, err := readCredentials(b, target); {
	case errors.Is(err, ErrPlaintextCredentials):
		report("backend.url", err.Error())
	case err != nil:
		report("backend.credentials", err.Error()) // each part is well by itself
	}
}
