// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
)

// diagnosis is what is wrong with a backend, and what mends it.
type diagnosis struct {
	// cause names the fault, in snake case. Faults of the same cause have the same fix.
	cause string
	// event is the fault in a few words, what the fault as a sentence.
	event, what string
	fix         string
}

// Causes that the catalog knows, besides those of the backend.
const (
	causeEmptyReflection = "reflection_empty"
	causeNoReflection    = "no_reflection"
	causeNames           = "catalog_invalid"
	causeNothingOffered  = "nothing_offered"
	causeOther           = "other"
)

const fixDescriptors = "pass its descriptors: `buf build -o api.binpb` in its repository, then --descriptors api.binpb"

// diagnose finds out why the backend cannot be used. It may ask the port what it
// speaks, which takes some seconds at most.
func (a *app) diagnose(ctx context.Context, err error) diagnosis {
	var build *catalog.BuildError
	switch {
	case errors.As(err, &build):
		return diagnosis{causeNames, "catalog cannot be built", err.Error(), "correct the option or the overlay entry; `sidecar doctor` names each"}
	case errors.Is(err, catalog.ErrEmpty):
		return diagnosis{causeNothingOffered, "catalog is empty", err.Error(), "relax --include and --exclude; `sidecar tools` without them lists all names"}
	case errors.Is(err, catalog.ErrNoServices):
		return diagnosis{causeEmptyReflection, "backend reflects no services", "the backend has server reflection, but no service is registered with it",
			"register the services before reflection, or " + fixDescriptors}
	}
	fault := backend.FaultOf(err)
	if a.client == nil {
		return diagnosis{causeOther, "catalog cannot be loaded", err.Error(), ""}
	}
	fault = a.client.Examine(ctx, fault)
	d := a.faultDiagnosis(fault, err)
	d.cause = orElse(string(fault), causeOther)
	if fault == backend.FaultNotServed {
		d.cause = causeNoReflection
	}
	return d
}

// faultDiagnosis puts a fault of the backend in words.
func (a *app) faultDiagnosis(f backend.Fault, err error) diagnosis {
	const unreachable, refuses, noTools = "backend unreachable", "backend rejects the sidecar", "backend has no reflection"
	target := a.client.Target()
	switch f {
	case backend.FaultUnknownHost:
		return diagnosis{event: unreachable, what: "the host name does not resolve", fix: "correct the host in --backend, or its DNS entry"}
	case backend.FaultRefused:
		return diagnosis{event: unreachable, what: "nothing listens on this address", fix: "start the backend, or correct --backend"}
	case backend.FaultNoAnswer:
		return diagnosis{event: unreachable, what: "no answer in time", fix: "check whether the backend hangs or a firewall drops packets; --backend must be reachable from this host"}
	case backend.FaultHungUp:
		return diagnosis{event: unreachable, what: "the backend closes connections without a response", fix: "correct --backend, or look at the backend's log"}
	case backend.FaultNeedsTLS:
		return diagnosis{event: unreachable, what: "the port uses TLS, but --backend does not", fix: "--backend " + withTLS(target)}
	case backend.FaultNoTLS:
		return diagnosis{event: unreachable, what: "--backend uses TLS, but the port does not", fix: "--backend " + withoutTLS(target)}
	case backend.FaultAuthority:
		return diagnosis{event: unreachable, what: "the backend's certificate is signed by an unknown CA", fix: "--backend-ca FILE, with the PEM certificate of that CA"}
	case backend.FaultName:
		return diagnosis{event: unreachable, what: "the backend's certificate is for another name: " + innermost(err), fix: "--backend-server-name NAME, with a name of the certificate"}
	case backend.FaultExpired:
		return diagnosis{event: unreachable, what: "the backend's certificate is expired or not yet valid: " + innermost(err), fix: "renew the backend's certificate, or correct the clock"}
	case backend.FaultCertificate:
		return diagnosis{event: unreachable, what: "the backend's certificate is not accepted: " + innermost(err), fix: "correct the certificate, --backend-ca, --backend-server-name or --backend-uris"}
	case backend.FaultClientCertificate:
		return diagnosis{event: unreachable, what: "the backend rejects the TLS handshake: it requires a client certificate, or a different one", fix: "--backend-cert FILE and --backend-key FILE"}
	case backend.FaultNoHTTP2:
		return diagnosis{event: unreachable, what: "the server does not offer HTTP/2, which gRPC needs", fix: "for Connect or gRPC-Web: connect+https:// or grpcweb+https:// in --backend"}
	case backend.FaultWebServer:
		return diagnosis{event: unreachable, what: "a web server answers on this port, not an RPC service", fix: "correct the port in --backend"}
	case backend.FaultNotRPC:
		return diagnosis{
			event: unreachable, what: "the server does not speak gRPC, Connect or gRPC-Web",
			fix: "correct --backend; for a service without health check and reflection, name the protocol (grpc://, connect+http://, grpcweb+http://) and " + fixDescriptors,
		}
	case backend.FaultCredentials:
		if a.client.HasCredentials() {
			return diagnosis{event: refuses, what: "unauthenticated: the backend does not accept the configured credentials", fix: "correct the token or header in " + a.credentialSources()}
		}
		return diagnosis{event: refuses, what: "unauthenticated: the backend requires credentials", fix: "--backend-token-file FILE (sent as `authorization: Bearer TOKEN`), or --backend-header-file FILE for other headers"}
	case backend.FaultForbidden:
		return diagnosis{event: refuses, what: "permission_denied: the sidecar may not use the backend's reflection or health check", fix: "grant that permission to the sidecar's credentials, or " + fixDescriptors}
	case backend.FaultNotServed:
		return diagnosis{event: noTools, what: "the backend has no server reflection (neither v1 nor v1alpha)", fix: "register reflection in the backend, or " + fixDescriptors}
	case backend.FaultUnknown:
	}
	return diagnosis{event: "catalog cannot be loaded", what: innermost(err), fix: "run `sidecar doctor` with the same flags for details"}
}

// credentialSources are the settings that hold credentials.
func (a *app) credentialSources() string {
	var out []string
	b := a.cfg.GetBackend()
	if f := b.GetCredentials().GetTokenFile(); f != "" {
		out = append(out, f)
	}
	if f := b.GetMetadata().GetStaticFile(); f != "" {
		out = append(out, f)
	}
	if len(b.GetMetadata().GetStatic()) > 0 {
		out = append(out, "backend.metadata.static")
	}
	return strings.Join(out, ", ")
}

// withTLS is the target with TLS.
func withTLS(t backend.Target) string {
	scheme, rest, _ := strings.Cut(t.String(), "://")
	return scheme + "s://" + rest
}

// withoutTLS is the target without.
func withoutTLS(t backend.Target) string {
	scheme, rest, _ := strings.Cut(t.String(), "://")
	return strings.TrimSuffix(scheme, "s") + "://" + rest
}

// innermost is the text of the cause at the bottom of an error, along its first
// branch.
func innermost(err error) string {
	for {
		switch e := err.(type) { //nolint:errorlint // it walks the chain itself
		case interface{ Unwrap() error }:
			if next := e.Unwrap(); next != nil {
				err = next
				continue
			}
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				err = all[0]
				continue
			}
		}
		return err.Error()
	}
}
