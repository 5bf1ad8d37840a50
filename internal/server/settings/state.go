// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// SharedState says where replicas keep what they share.
func SharedState(c *configv1.State, sealer *seal.Sealer, log *zap.Logger) state.Options {
	o := state.Options{
		URL: c.GetUrl(), Name: c.GetName(), CredentialsFile: c.GetCredentialsFile(), NkeyFile: c.GetNkeyFile(),
		Replicas: int(c.GetReplicas()), InMemory: c.GetStorage() == "memory", Timeout: c.GetOperationTimeout().AsDuration(),
		Sealer: sealer, Log: log,
	}
	if t := c.GetTls(); t != nil {
		o.TLS = &tlsfiles.ClientOptions{CAFile: t.GetCaFile(), CertFile: t.GetCertFile(), KeyFile: t.GetKeyFile()}
	}
	return o
}
