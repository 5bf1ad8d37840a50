// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// MetadataPrefix is the well-known path of the metadata. The path of the resource follows it.
const MetadataPrefix = "/.well-known/oauth-protected-resource"

// IsMetadataPath reports whether a request's path is one of metadata.
func IsMetadataPath(path string) bool { return isBelow(path, MetadataPrefix) }

// IsOfAuthorizationServer reports whether clients ask at a path for an authorization server: for its metadata
// (RFC 8414, OpenID Connect Discovery), or at the endpoints that MCP 2025-03-26 assumes without metadata.
func IsOfAuthorizationServer(path string) bool {
	switch path {
	case "/register", "/authorize", "/token":
		return true
	}
	return isBelow(path, "/.well-known/oauth-authorization-server") || isBelow(path, "/.well-known/openid-configuration")
}

func isBelow(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// Resource is the URL of a protected resource.
type Resource struct {
	// URL is the resource identifier as it is configured.
	URL string
	// Path is the path of its metadata.
	Path string
	// Metadata is the URL of its metadata, for challenges.
	Metadata string
}

// ParseResource reads a resource identifier. The error says what it must be.
func ParseResource(resource string) (Resource, error) {
	u, err := parseIdentifier(resource, "https://tools.example.org/mcp")
	switch {
	case err != nil:
		return Resource{}, err
	case strings.HasSuffix(resource, "/"):
		return Resource{}, errors.New("must not end in a slash, because clients compare it character by character")
	case u.RawPath != "" || u.Path != "" && path.Clean(u.Path) != u.Path || !isPlain(resource):
		return Resource{}, errors.New("must have a plain path, without empty or dot segments and escapes")
	}
	at := MetadataPrefix + u.Path
	return Resource{URL: resource, Path: at, Metadata: u.Scheme + "://" + u.Host + at}, nil
}

// isPlain holds for URLs that can be quoted in a header.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '%' {
			return false
		}
	}
	return true
}

// checkIssuer returns why a text cannot be the identifier of an authorization server
// (RFC 8414, section 2), or nil.
func checkIssuer(issuer string) error {
	_, err := parseIdentifier(issuer, "https://login.example.org/realms/tools")
	if err == nil && strings.ContainsAny(issuer, " \"\\") {
		return errors.New("must be a plain URL")
	}
	return err
}

// parseIdentifier reads what the identifiers of resources and of authorization servers have to be.
func parseIdentifier(text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must be an absolute URL, such as " + example)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("must begin with https://, because http is for loopback only")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, errors.New("must have no user, query or fragment")
	}
	return u, nil
}

// MetadataURL returns the URL of the metadata of a resource: the well-known path goes between
// its host and its path.
func MetadataURL(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + MetadataPrefix + strings.TrimSuffix(u.EscapedPath(), "/")
}

// document is the metadata (RFC 9728, section 2). Members without a value are left out.
type document struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported,omitempty"`
	Name                 string   `json:"resource_name,omitempty"`
	// DPoPAlgorithms are the algorithms of proofs (RFC 9449), DPoPRequired is set if every
	// token must be bound to a key.
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported,omitempty"`
	DPoPRequired   bool     `json:"dpop_bound_access_tokens_required,omitempty"`
}

// HasOAuth reports whether the sidecar is an OAuth resource server.
func HasOAuth(c *configv1.OAuth) bool {
	return c.GetResource() != "" && len(issuerURLs(c)) > 0
}

// issuerURLs are the authorization servers, each once.
func issuerURLs(c *configv1.OAuth) []string {
	var all []string
	for _, issuer := range c.GetIssuers() {
		all = append(all, issuer.GetUrl())
	}
	for _, url := range c.GetIssuerUrls() {
		if !slices.ContainsFunc(all, func(have string) bool { return strings.TrimSuffix(have, "/") == strings.TrimSuffix(url, "/") }) {
			all = append(all, url)
		}
	}
	return all
}

// MetadataHandler serves the metadata. Make one with [NewMetadataHandler].
type MetadataHandler struct {
	// path is that of the metadata; the root form, [MetadataPrefix], is served too. It is empty where there is none.
	path string
	// document is without the scopes of now.
	document  document
	supported func() []string
}

// NewMetadataHandler returns a MetadataHandler of a sidecar, by its name. Without OAuth there is no metadata.
// supported returns the scopes of now.
func NewMetadataHandler(c *configv1.OAuth, name string, supported func() []string) *MetadataHandler {
	resource, err := ParseResource(c.GetResource())
	if err != nil || !HasOAuth(c) {
		return &MetadataHandler{}
	}
	h := &MetadataHandler{path: resource.Path, supported: supported, document: document{
		Resource: resource.URL, AuthorizationServers: issuerURLs(c), BearerMethods: []string{"header"},
		Name: cmp.Or(c.GetResourceName(), name), DPoPAlgorithms: c.GetAlgorithms(), DPoPRequired: c.GetDpop().GetRequired(),
	}}
	if len(h.document.DPoPAlgorithms) == 0 {
		h.document.DPoPAlgorithms = Algorithms()
	}
	return h
}

// Resource returns the URL of the resource; empty where there is no metadata.
func (h *MetadataHandler) Resource() string { return h.document.Resource }

// NoAuthorizationServer answers at the paths of [IsOfAuthorizationServer]. The sidecar is none, and a client that is asked for
// a token there would take it for one: it would try to register, and not send the token that it has.
func NoAuthorizationServer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	http.Error(w, "this is not an authorization server; send Authorization: Bearer TOKEN with a token that the operator gave you, "+
		"or ask the servers that "+MetadataPrefix+" names, if there are any", http.StatusNotFound)
}

// cacheControl lets anyone keep the document for as long as lists of tools.
const cacheControl = "public, max-age=300"

// ServeHTTP implements [http.Handler].
func (h *MetadataHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.path == "" || r.URL.Path != h.path && r.URL.Path != MetadataPrefix {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		http.Error(w, "there is no protected resource metadata here", http.StatusNotFound)
		return
	}
	ServePublic(w, r, "protected resource metadata", h.serve)
}

// ServePublic answers requests for a public document, for clients that have not connected yet. It is named in errors, and serve writes it.
func ServePublic(w http.ResponseWriter, r *http.Request, name string, serve http.HandlerFunc) {
	head := w.Header()
	// No cookie and no certificate decides about the document, so that any page may read it.
	head.Set("Access-Control-Allow-Origin", "*")
	head.Set("X-Content-Type-Options", "nosniff")
	const methods = "GET, HEAD, OPTIONS"
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		serve(w, r)
	case http.MethodOptions:
		head.Set("Allow", methods)
		head.Set("Access-Control-Allow-Methods", methods)
		head.Set("Access-Control-Allow-Headers", "*")
		head.Set("Access-Control-Max-Age", "7200") // two hours, the most that browsers keep
		w.WriteHeader(http.StatusNoContent)
	default:
		head.Set("Allow", methods)
		http.Error(w, name+" is read with GET", http.StatusMethodNotAllowed)
	}
}

// serve writes the document, or that the client has it.
func (h *MetadataHandler) serve(w http.ResponseWriter, r *http.Request) {
	now := h.document
	now.ScopesSupported = h.supported()
	body, err := json.Marshal(now)
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
