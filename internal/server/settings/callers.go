// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// ListenerTLS reads the certificates of the main listener.
func ListenerTLS(files *configv1.ListenerTls) (*tlsfiles.Server, error) {
	return tlsfiles.NewServer(tlsfiles.ServerOptions{
		CertFile: files.GetCertFile(), KeyFile: files.GetKeyFile(),
		ClientCAFile: files.GetClientCaFile(), ClientURIs: files.GetClientUris(),
	})
}

// noSubject is the setting that tells the backend nothing.
const noSubject = "off"

// SubjectHeader returns the header with the caller's name for the backend; empty if
// there is none. Even then a caller's own header of the default name is not forwarded,
// because it is not on the allow-list.
func SubjectHeader(cfg *configv1.Config) string {
	if name := cfg.GetAccess().GetSubjectHeader(); name != noSubject {
		return name
	}
	return ""
}

// InboundMetadata returns the headers that are forwarded to the backend.
func InboundMetadata(cfg *configv1.Config) []string {
	names := slices.Clone(cfg.GetBackend().GetMetadata().GetInbound())
	if subject := SubjectHeader(cfg); subject != "" && !slices.Contains(names, subject) {
		names = append(names, subject)
	}
	return names
}

// Callers reads the callers file.
func Callers(path string) ([]access.Entry, error) {
	file, err := config.LoadCallers(path)
	if err != nil {
		return nil, err
	}
	entries := make([]access.Entry, 0, len(file.GetCallers()))
	for _, c := range file.GetCallers() {
		e := access.Entry{
			Grant: access.Grant{
				Name: c.GetName(), Tools: c.GetTools(), Resources: c.GetResources(), Prompts: c.GetPrompts(),
				Trust: trustOf(c.GetTrust()),
			},
			URIs: c.GetCertificateUris(),
		}
		for _, text := range c.GetTokenSha256() {
			var digest access.Digest
			if n, err := hex.Decode(digest[:], []byte(text)); err != nil || n != len(digest) {
				return nil, fmt.Errorf("%s: a token_sha256 of %s is not a SHA-256 digest", path, c.GetName())
			}
			e.Tokens = append(e.Tokens, digest)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func trustOf(said string) access.Trust {
	switch said {
	case "trusted":
		return access.Trusted
	case "untrusted":
		return access.Untrusted
	}
	return access.Unsaid
}

// checkAuthentication reads the callers file and the certificates before a port opens, so
// that their errors are reported together with all others.
func checkAuthentication(cfg *configv1.Config, report func(path, message string)) {
	if subject := SubjectHeader(cfg); subject != "" {
		if _, err := metadata.NewRules([]string{subject}, nil); err != nil {
			report("access.subject_header", err.Error())
		}
	}
	if path := cfg.GetAccess().GetTokensFile(); path != "" {
		var faults *config.Error
		switch _, err := Callers(path); {
		case errors.As(err, &faults):
			report("access.tokens_file", strings.ReplaceAll(faults.Error(), "\n", "; "))
		case err != nil:
			report("access.tokens_file", err.Error())
		}
	}
	if files := cfg.GetListeners().GetTls(); files.GetCertFile() != "" && files.GetKeyFile() != "" {
		if _, err := ListenerTLS(files); err != nil {
			report("listeners.tls", err.Error())
		}
	}
}
