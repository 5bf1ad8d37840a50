// SPDX-License-Identifier: Apache-2.0

package protectedresource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"
)

// Metadata is the document (RFC 9728, section 2). Members without a value are left out.
type Metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported,omitempty"`
	Name                 string   `json:"resource_name,omitempty"`
	// CertificateBound is set if every token must be bound to a client certificate
	// (RFC 8705).
	CertificateBound bool `json:"tls_client_certificate_bound_access_tokens,omitempty"`
	// DPoPAlgorithms are the algorithms of proofs (RFC 9449), DPoPRequired is set if every
	// token must be bound to a key.
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`
	DPoPRequired   bool     `json:"dpop_bound_access_tokens_required,omitempty"`
}

// Options configure a [Handler]. The zero value is a sidecar without OAuth, which has no
// metadata.
type Options struct {
	// Path is the path of the metadata, that of a [Resource]. The root form, [Prefix], is
	// served too.
	Path string
	// Metadata returns the document of now; nil if there is none.
	Metadata func() Metadata
}

// Handler serves the metadata. Make one with [New].
type Handler struct{ opts Options }

// New returns a Handler.
func New(o Options) *Handler { return &Handler{o} }

// NoAuthorizationServer answers at the paths of [IsOfAuthorizationServer]. The sidecar is none, and a client that is asked for
// a token there would take it for one: it would try to register, and not send the token that it has.
func NoAuthorizationServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	http.Error(w, "this is not an authorization server; send Authorization: Bearer TOKEN with a token that the operator gave you, "+
		"or ask the servers that "+Prefix+" names, if there are any", http.StatusNotFound)
}

// cacheControl lets anyone keep the document for as long as lists of tools.
const cacheControl = "public, max-age=300"

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	// No cookie and no certificate decides about the document, so that any page may read it.
	head.Set("Access-Control-Allow-Origin", "*")
	head.Set("X-Content-Type-Options", "nosniff")
	if h.opts.Metadata == nil || r.URL.Path != h.opts.Path && r.URL.Path != Prefix {
		http.Error(w, "there is no protected resource metadata here", http.StatusNotFound)
		return
	}
	const methods = "GET, HEAD, OPTIONS"
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.serve(w, r)
	case http.MethodOptions:
		head.Set("Allow", methods)
		head.Set("Access-Control-Allow-Methods", methods)
		head.Set("Access-Control-Allow-Headers", "*")
		head.Set("Access-Control-Max-Age", "7200") // two hours, the most that browsers keep
		w.WriteHeader(http.StatusNoContent)
	default:
		head.Set("Allow", methods)
		http.Error(w, "protected resource metadata is read with GET", http.StatusMethodNotAllowed)
	}
}

// serve writes the document, or that the client has it.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	body, err := json.Marshal(h.opts.Metadata())
	if err != nil { // texts always have a JSON form
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
