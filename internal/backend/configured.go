// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// OptionsOf returns the options of the client of the tool service. A nil dial uses the
// network.
func OptionsOf(b *configv1.Backend, version string, dial func(ctx context.Context, network, address string) (net.Conn, error)) Options {
	return Options{
		TLS: TLSOptions{
			CAFile: b.GetTls().GetCaFile(), CertFile: b.GetTls().GetCertFile(),
			KeyFile: b.GetTls().GetKeyFile(), ServerName: b.GetTls().GetServerName(),
			ServerURIs: b.GetTls().GetServerUris(),
		},
		Credentials:      CredentialsOf(b),
		MaxRequestBytes:  int(b.GetMaxSendBytes()),
		MaxResponseBytes: int(b.GetMaxReceiveBytes()),
		DialTimeout:      b.GetConnectTimeout().AsDuration(),
		ProbeTimeout:     b.GetProbeTimeout().AsDuration(),
		UserAgent:        "outrigger/" + version,
		Dial:             dial,
	}
}

// CredentialsOf are what the sidecar shows the backend.
func CredentialsOf(b *configv1.Backend) CredentialOptions {
	return CredentialOptions{
		Headers: b.GetMetadata().GetStatic(), HeaderFile: b.GetMetadata().GetStaticFile(),
		TokenFile: b.GetCredentials().GetTokenFile(), Scheme: b.GetCredentials().GetScheme(),
		AllowPlaintext: b.GetCredentials().GetAllowPlaintext(),
	}
}

// Check looks at what is forwarded to the backend and from it, and at what the sidecar shows it.
func Check(cfg *configv1.Config, report func(path, message string)) {
	checkMetadata(cfg, report)
	checkBaggage(cfg, report)
	checkCredentials(cfg, report)
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
	all := CredentialsOf(b)
	for _, one := range [...]struct {
		path    string
		options CredentialOptions
	}{
		{"backend.metadata.static", CredentialOptions{Headers: all.Headers}},
		{"backend.metadata.static_file", CredentialOptions{HeaderFile: all.HeaderFile}},
		{"backend.credentials.token_file", CredentialOptions{TokenFile: all.TokenFile, Scheme: all.Scheme}},
	} {
		one.options.AllowPlaintext = true
		if err := one.options.Check(target); err != nil {
			report(one.path, err.Error())
			return
		}
	}
	switch err := all.Check(target); {
	case errors.Is(err, ErrPlaintextCredentials):
		report("backend.url", err.Error())
	case err != nil:
		report("backend.credentials", err.Error()) // each part is well by itself
	}
}
