// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"context"
	"errors"
	"net"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// Dial connects to a backend in place of the network.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Backend returns the options of the client of the tool service. A nil dial uses the
// network.
func Backend(b *configv1.Backend, version string, dial Dial) backend.Options {
	return backend.Options{
		TLS: backend.TLSOptions{
			CAFile: b.GetTls().GetCaFile(), CertFile: b.GetTls().GetCertFile(),
			KeyFile: b.GetTls().GetKeyFile(), ServerName: b.GetTls().GetServerName(),
			ServerURIs: b.GetTls().GetServerUris(),
		},
		Credentials:      Credentials(b),
		MaxRequestBytes:  int(b.GetMaxSendBytes()),
		MaxResponseBytes: int(b.GetMaxReceiveBytes()),
		DialTimeout:      b.GetConnectTimeout().AsDuration(),
		ProbeTimeout:     b.GetProbeTimeout().AsDuration(),
		UserAgent:        "outrigger/" + version,
		Dial:             dial,
	}
}

// Credentials are what the sidecar shows the backend.
func Credentials(b *configv1.Backend) backend.CredentialOptions {
	return backend.CredentialOptions{
		Headers: b.GetMetadata().GetStatic(), HeaderFile: b.GetMetadata().GetStaticFile(),
		TokenFile: b.GetCredentials().GetTokenFile(), Scheme: b.GetCredentials().GetScheme(),
		AllowPlaintext: b.GetCredentials().GetAllowPlaintext(),
	}
}

// checkCredentials reads the files of the backend's credentials before a port
// opens, so that what is wrong with them is reported with everything else.
func checkCredentials(cfg *configv1.Config, report func(path, message string)) {
	b := cfg.GetBackend()
	target, err := backend.ParseTarget(b.GetUrl())
	if err != nil {
		return // there is no backend, or it is the demo on loopback, or the URL is refused by itself
	}
	all := Credentials(b)
	for _, one := range [...]struct {
		path    string
		options backend.CredentialOptions
	}{
		{"backend.metadata.static", backend.CredentialOptions{Headers: all.Headers}},
		{"backend.metadata.static_file", backend.CredentialOptions{HeaderFile: all.HeaderFile}},
		{"backend.credentials.token_file", backend.CredentialOptions{TokenFile: all.TokenFile, Scheme: all.Scheme}},
	} {
		one.options.AllowPlaintext = true
		if err := one.options.Check(target); err != nil {
			report(one.path, err.Error())
			return
		}
	}
	switch err := all.Check(target); {
	case errors.Is(err, backend.ErrPlaintextCredentials):
		report("backend.url", err.Error())
	case err != nil:
		report("backend.credentials", err.Error()) // each part is well by itself
	}
}
