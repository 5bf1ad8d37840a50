// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"connectrpc.com/connect"
)

// Fault is the reason why a backend cannot be used, as far as it can be determined.
type Fault string

// The faults. Each has a different fix.
const (
	FaultUnknown Fault = ""
	// FaultUnknownHost means that the host name does not resolve.
	FaultUnknownHost Fault = "unknown_host"
	// FaultRefused means that nothing listens on the port or socket.
	FaultRefused Fault = "connection_refused"
	// FaultNoAnswer means that no response came in time.
	FaultNoAnswer Fault = "no_answer"
	// FaultHungUp means that the peer closed the connection without a response.
	FaultHungUp Fault = "hung_up"
	// FaultNeedsTLS means that the port speaks TLS and the target does not.
	FaultNeedsTLS Fault = "tls_needed"
	// FaultNoTLS means that the target has TLS and the port does not.
	FaultNoTLS Fault = "tls_not_spoken"
	// FaultAuthority means that no trusted CA signed the certificate.
	FaultAuthority Fault = "tls_unknown_authority"
	// FaultName means that the certificate is for another name.
	FaultName Fault = "tls_wrong_name"
	// FaultExpired means that the certificate is not valid now.
	FaultExpired Fault = "tls_expired"
	// FaultCertificate means that the certificate was rejected for another reason.
	FaultCertificate Fault = "tls_bad_certificate"
	// FaultClientCertificate means that the backend rejects the client certificate, or
	// requires one.
	FaultClientCertificate Fault = "tls_client_refused"
	// FaultNoHTTP2 means that the server offers HTTP/1.1 only. gRPC needs HTTP/2, and so
	// does reflection over Connect.
	FaultNoHTTP2 Fault = "no_http2"
	// FaultWebServer means that the port belongs to a web server.
	FaultWebServer Fault = "web_server"
	// FaultNotRPC means that the peer responds, but in none of the protocols.
	FaultNotRPC Fault = "not_rpc"
	// FaultCredentials means that the backend requires credentials, or other ones.
	FaultCredentials Fault = "unauthenticated"
	// FaultForbidden means that the credentials lack permission.
	FaultForbidden Fault = "permission_denied"
	// FaultNotServed means that the backend does not serve the requested service.
	FaultNotServed Fault = "unimplemented"
)

// FaultOf returns the reason why a call, a probe or a reflection of a backend failed.
func FaultOf(err error) Fault {
	if err == nil {
		return FaultUnknown
	}
	if f := tlsFault(err); f != FaultUnknown {
		return f
	}
	if f := answerFault(err); f != FaultUnknown {
		return f
	}
	return connectionFault(err)
}

// tlsFault goes by the types of crypto/tls and crypto/x509.
func tlsFault(err error) Fault {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		refused   *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return FaultAuthority
	case errors.As(err, &name):
		return FaultName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return FaultExpired
	case errors.As(err, &refused), errors.As(err, &invalid):
		return FaultCertificate
	case errors.As(err, &record):
		return FaultNoTLS
	case errors.Is(err, errWantsTLS):
		return FaultNeedsTLS
	case errors.Is(err, errNoHTTP2):
		return FaultNoHTTP2
	case anyHandshakeRefused(err):
		return FaultClientCertificate
	}
	return FaultUnknown
}

// anyHandshakeRefused looks at all attempts of a probe.
func anyHandshakeRefused(err error) bool {
	var probe *ProbeError
	if !errors.As(err, &probe) {
		return handshakeRefused(err)
	}
	for _, a := range probe.Attempts {
		if handshakeRefused(a.Cause) {
			return true
		}
	}
	return false
}

// answerFault goes by what the peer said.
func answerFault(err error) Fault {
	if f := attemptsFault(err); f != FaultUnknown {
		return f
	}
	code := connect.Code(0)
	var own *Error
	var rpc *connect.Error
	switch {
	case errors.As(err, &own):
		if own.Kind == KindStatus {
			code = own.Code
		}
		if f := foreignFault(own.PeerCode, own.Message); f != FaultUnknown {
			return f
		}
	case errors.As(err, &rpc) && connect.IsWireError(err):
		code = rpc.Code()
	case errors.As(err, &rpc) && !errors.Is(err, context.DeadlineExceeded):
		// The library's own word about an answer of HTTP (401, 403, 404).
		if rpc.Code() != connect.CodeUnavailable {
			code = rpc.Code()
		}
	}
	if rpc != nil {
		if f := foreignFault(rpc.Code().String(), rpc.Message()); f != FaultUnknown {
			return f
		}
	}
	switch code { //nolint:exhaustive // the others say nothing about the backend as a whole
	case connect.CodeUnauthenticated:
		return FaultCredentials
	case connect.CodePermissionDenied:
		return FaultForbidden
	case connect.CodeUnimplemented:
		return FaultNotServed
	}
	return FaultUnknown
}

// foreignFault goes by the message of a status whose number is none of gRPC's, as
// OpenFGA sends: 1010 "missing bearer token", 1500 "unauthenticated", 1600
// "forbidden".
func foreignFault(code, message string) Fault {
	if !strings.HasPrefix(code, "code_") {
		return FaultUnknown
	}
	message = strings.ToLower(message)
	for _, part := range [...]string{"unauthenticated", "bearer token", "invalid token", "authentication", "credential", "api key"} {
		if strings.Contains(message, part) {
			return FaultCredentials
		}
	}
	if strings.Contains(message, "forbidden") || strings.Contains(message, "permission denied") {
		return FaultForbidden
	}
	return FaultUnknown
}

// attemptsFault goes by the HTTP answers of a probe.
func attemptsFault(err error) Fault {
	var probe *ProbeError
	if !errors.As(err, &probe) {
		return FaultUnknown
	}
	found, answered := FaultUnknown, false
	for _, a := range probe.Attempts {
		var answer *AnswerError
		if !errors.As(a.Cause, &answer) {
			continue
		}
		answered = true
		switch {
		case answer.Status == http.StatusUnauthorized:
			return FaultCredentials
		case answer.Status == http.StatusForbidden && found == FaultUnknown:
			found = FaultForbidden
		case strings.HasPrefix(answer.ContentType, "text/html"):
			found = FaultWebServer
		}
	}
	if found == FaultUnknown && answered {
		found = FaultNotRPC
	}
	return found
}

// connectionFault goes by how far the connection got.
func connectionFault(err error) Fault {
	var dns *net.DNSError
	var timeout net.Error
	var own *Error
	switch {
	case errors.As(err, &dns) && !dns.IsTimeout:
		return FaultUnknownHost
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return FaultRefused
	case errors.Is(err, errHTTP1):
		return FaultNoHTTP2
	case errors.Is(err, errNotHTTP):
		return FaultNotRPC
	case errors.Is(err, errHungUp), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FaultHungUp
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return FaultNoAnswer
	case errors.As(err, &own) && (own.Kind == KindGarbage || own.Kind == KindForeign):
		return FaultNotRPC
	}
	return FaultUnknown
}
