// SPDX-License-Identifier: Apache-2.0

package stateview

import (
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
	"github.com/outrigger-mcp/outrigger/internal/sessionstore"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// Open connects to the state of a deployment as its replicas do, and declares all kinds. It makes nothing.
func Open(cfg *configv1.Config) (*state.Inspector, error) {
	keys, err := seal.LoadKeys(cfg.GetState().GetKeyFile())
	if err != nil {
		return nil, &KeyError{err}
	}
	i, err := state.Inspect(settings.SharedState(cfg.GetState(), settings.StateSealer(cfg.GetLimits(), keys), nil))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it means
	}
	for _, k := range Kinds() {
		k.declare(i, cfg)
	}
	i.Channel(sessionstore.ChannelName)
	return i, nil
}

// KeyError means that the file of --state-key cannot be used.
type KeyError struct{ err error }

func (e *KeyError) Error() string { return fmt.Sprintf("--state-key: %v", e.err) }
func (e *KeyError) Unwrap() error { return e.err }
