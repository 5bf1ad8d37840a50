// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/backend/recorded"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// Diagnosis is what is wrong with a backend, and what mends it.
type Diagnosis struct {
	// Cause names the fault, in snake case. Faults of the same cause have the same fix.
	Cause string
	// Event is the fault in a few words, What the fault as a sentence.
	Event, What string
	// Fix says what to do; it is empty where that is not known.
	Fix string
}

// Causes that the catalog knows, besides those of the backend.
const (
	causeEmptyReflection = "reflection_empty"
	causeNoReflection    = "no_reflection"
	causeIncomplete      = "reflection_incomplete"
	causeToolAPI         = "tool_api_invalid"
	causeNames           = "catalog_invalid"
	causeNothingOffered  = "nothing_offered"
	causeDescriptors     = "descriptors_not_fetched"
	CauseOther           = "other"
)

// fixDescriptors is what to do about a backend whose reflection lacks something.
const fixDescriptors = "pass its descriptors: `buf build -o api.binpb` in its repository, then --descriptors api.binpb"

// Diagnoser finds out why a backend cannot be used.
type Diagnoser struct {
	// Name is that of one of several backends; empty for the only one.
	Name string
	// Client is nil where there is no backend. Recorded answers in its place; nil elsewhere.
	Client   *backend.Client
	Recorded *recorded.Upstream
	Config   *configv1.Backend

	sources *configv1.Catalog
	live    *catalog.Live
}

// MakesTools reports whether the backend's tools are made of descriptors, in place of reflection.
func (a Diagnoser) MakesTools() bool { return makesTools(a.sources) }

// Failed returns why the backend has no tools after a load of the catalog of all that ended with err; nil where it has.
func (a Diagnoser) Failed(err error) error {
	if a.Name == "" {
		return err
	}
	return a.live.Status().Err
}

// Diagnose finds out why the backend cannot be used. It may ask the port what it
// speaks, which takes some seconds at most.
func (a Diagnoser) Diagnose(ctx context.Context, err error) Diagnosis {
	d := a.diagnose(ctx, err)
	d.What, d.Fix = a.inEntry(d.What, ""), a.inEntry(d.Fix, " in the entry "+a.Name+" of backends")
	return d
}

// FixOffered is what to do about descriptors that the backend does not serve.
func (a Diagnoser) FixOffered() string {
	return a.inEntry("pass the descriptors of the version that runs, correct --backend, or omit the service with --exclude", " in the entry "+a.Name+" of backends")
}

// inEntry has a text name the settings of one of several backends, where the only one has flags, and where they are.
func (a Diagnoser) inEntry(text, where string) string {
	if a.Name == "" {
		return text
	}
	if url, ok := strings.CutPrefix(text, "--backend "); ok && strings.Contains(url, "://") {
		return "set url: " + url + where
	}
	out := strings.NewReplacer(
		"--backend-token-file FILE", "credentials.token_file", "--backend-header-file FILE", "metadata.static_file", "backend.metadata.static", "metadata.static",
		"--backend-ca FILE", "tls.ca_file", "--backend-ca", "tls.ca_file", "--backend-server-name NAME", "tls.server_name", "--backend-server-name", "tls.server_name",
		"--backend-uris", "tls.server_uris", "--backend-cert FILE and --backend-key FILE", "tls.cert_file and tls.key_file",
		"then --descriptors api.binpb", "then descriptors: [api.binpb]", "--descriptors", "descriptors", "--native off", `native: "off"`, "--backend", "the url",
	).Replace(text)
	if out == text {
		return text
	}
	return out + where
}

func (a Diagnoser) diagnose(ctx context.Context, err error) Diagnosis {
	var build *catalog.BuildError
	var fetch *source.FetchError
	var answer *backend.InvalidAnswerError
	switch {
	case errors.As(err, &fetch):
		return Diagnosis{causeDescriptors, "descriptors cannot be fetched", err.Error(), "correct --descriptors, or what it names; a catalog that is in use stays in use"}
	case errors.As(err, &build):
		return Diagnosis{causeNames, "catalog cannot be built", err.Error(), "correct the option or the overlay entry; `sidecar doctor` names each"}
	case errors.As(err, &answer):
		return Diagnosis{causeToolAPI, "backend does not implement the tool API", err.Error(),
			"--native off, unless the backend implements outrigger.v1.ToolService; then correct what it answers"}
	case errors.Is(err, source.ErrUndescribed), errors.Is(err, catalog.ErrIncomplete):
		return Diagnosis{causeIncomplete, "backend descriptors incomplete", err.Error(), fixDescriptors}
	case errors.Is(err, catalog.ErrEmpty):
		return Diagnosis{causeNothingOffered, "catalog is empty", err.Error(), "relax --include and --exclude; `sidecar tools` without them lists all names"}
	case errors.Is(err, source.ErrNoServices):
		return Diagnosis{causeEmptyReflection, "backend reflects no services", "the backend has server reflection, but no service is registered with it",
			"register the services before reflection, or " + fixDescriptors}
	}
	fault := backend.FaultOf(err)
	if a.Client == nil {
		return Diagnosis{CauseOther, "catalog cannot be loaded", err.Error(), ""}
	}
	fault = a.Client.Examine(ctx, fault)
	d := a.faultDiagnosis(fault, err)
	d.Cause = cmp.Or(string(fault), CauseOther)
	if fault == backend.FaultNotServed {
		d.Cause = causeNoReflection
	}
	return d
}

// faultDiagnosis puts a fault of the backend in words.
func (a Diagnoser) faultDiagnosis(f backend.Fault, err error) Diagnosis {
	const unreachable, refuses, noTools = "backend unreachable", "backend rejects the sidecar", "backend has no reflection"
	target := a.Client.Target()
	switch f {
	case backend.FaultUnknownHost:
		return Diagnosis{Event: unreachable, What: "the host name does not resolve", Fix: "correct the host in --backend, or its DNS entry"}
	case backend.FaultRefused:
		return Diagnosis{Event: unreachable, What: "nothing listens on this address", Fix: "start the backend, or correct --backend"}
	case backend.FaultNoAnswer:
		return Diagnosis{Event: unreachable, What: "no answer in time", Fix: "check whether the backend hangs or a firewall drops packets; --backend must be reachable from this host"}
	case backend.FaultHungUp:
		return Diagnosis{Event: unreachable, What: "the backend closes connections without a response", Fix: "correct --backend, or look at the backend's log"}
	case backend.FaultNeedsTLS:
		return Diagnosis{Event: unreachable, What: "the port uses TLS, but --backend does not", Fix: "--backend " + withTLS(target)}
	case backend.FaultNoTLS:
		return Diagnosis{Event: unreachable, What: "--backend uses TLS, but the port does not", Fix: "--backend " + withoutTLS(target)}
	case backend.FaultAuthority:
		return Diagnosis{Event: unreachable, What: "the backend's certificate is signed by an unknown CA", Fix: "--backend-ca FILE, with the PEM certificate of that CA"}
	case backend.FaultName:
		return Diagnosis{Event: unreachable, What: "the backend's certificate is for another name: " + innermost(err), Fix: "--backend-server-name NAME, with a name of the certificate"}
	case backend.FaultExpired:
		return Diagnosis{Event: unreachable, What: "the backend's certificate is expired or not yet valid: " + innermost(err), Fix: "renew the backend's certificate, or correct the clock"}
	case backend.FaultCertificate:
		return Diagnosis{Event: unreachable, What: "the backend's certificate is not accepted: " + innermost(err), Fix: "correct the certificate, --backend-ca, --backend-server-name or --backend-uris"}
	case backend.FaultClientCertificate:
		return Diagnosis{Event: unreachable, What: "the backend rejects the TLS handshake: it requires a client certificate, or a different one", Fix: "--backend-cert FILE and --backend-key FILE"}
	case backend.FaultNoHTTP2:
		if p := a.Client.Protocol(); p != backend.ProtocolGRPC && p != backend.ProtocolUnknown {
			return Diagnosis{
				Event: noTools, What: fmt.Sprintf("the backend speaks %v over HTTP/1.1 only; reflection is a bidirectional stream, which needs HTTP/2", p),
				Fix: "serve HTTP/2 (h2c without TLS), or " + fixDescriptors,
			}
		}
		return Diagnosis{
			Event: unreachable, What: "the server does not offer HTTP/2, which gRPC needs",
			Fix: "correct --backend; for Connect or gRPC-Web: connect+http(s):// or grpcweb+http(s):// in --backend",
		}
	case backend.FaultWebServer:
		return Diagnosis{Event: unreachable, What: "a web server answers on this port, not an RPC service", Fix: "correct the port in --backend"}
	case backend.FaultNotRPC:
		return Diagnosis{
			Event: unreachable, What: "the server does not speak gRPC, Connect or gRPC-Web",
			Fix: "correct --backend; for a service without health check and reflection, name the protocol (grpc://, connect+http://, grpcweb+http://) and " + fixDescriptors,
		}
	case backend.FaultCredentials:
		if a.Client.HasCredentials() {
			return Diagnosis{Event: refuses, What: "unauthenticated: the backend does not accept the configured credentials", Fix: "correct the token or header in " + a.credentialSources()}
		}
		return Diagnosis{Event: refuses, What: "unauthenticated: the backend requires credentials", Fix: "--backend-token-file FILE (sent as `authorization: Bearer TOKEN`), or --backend-header-file FILE for other headers"}
	case backend.FaultForbidden:
		return Diagnosis{Event: refuses, What: "permission_denied: the sidecar may not use the backend's reflection or health check", Fix: "grant that permission to the sidecar's credentials, or " + fixDescriptors}
	case backend.FaultNotServed:
		return Diagnosis{Event: noTools, What: "the backend has no server reflection (neither v1 nor v1alpha)", Fix: "register reflection in the backend, or " + fixDescriptors}
	case backend.FaultUnknown:
	}
	return Diagnosis{Event: "catalog cannot be loaded", What: innermost(err), Fix: "run `sidecar doctor` with the same flags for details"}
}

// credentialSources are the settings that hold credentials.
func (a Diagnoser) credentialSources() string {
	var out []string
	b := a.Config
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
	if scheme == "dns" { // dns:///host:port
		scheme, rest = "dns+grpc", rest[1:]
	}
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
