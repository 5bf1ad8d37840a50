// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// maxReference bounds a reference, as the setting does.
const maxReference = 4096

// ParseFetcher reads a reference to descriptors on a server: https://host/path, with #sha256=DIGEST behind it to pin the content, or
// oci://host/repository@sha256:DIGEST. Without TLS is for loopback. The error does not repeat a URL.
func ParseFetcher(ref string, o FetchOptions) (Fetcher, error) {
	if len(ref) > maxReference {
		return nil, fmt.Errorf("a reference has at most %d bytes", maxReference)
	}
	if strings.HasPrefix(ref, artifactPrefix) {
		return parseArtifact(ref, o)
	}
	u, err := url.Parse(ref)
	if err != nil {
		return nil, errors.New("is no URL")
	}
	switch u.Scheme {
	case "https", "http":
		return parseResource(u, o)
	}
	return nil, fmt.Errorf("descriptors cannot be fetched by %q; use a file, a folder, https:// or oci://", u.Scheme)
}

// resource is a descriptor set that an HTTP server has.
type resource struct {
	url  *url.URL // without fragment
	pin  string   // the digest in hex; empty where the content may change
	opts FetchOptions
}

// pinPrefix is what a fragment begins with.
const pinPrefix = "sha256="

func parseResource(u *url.URL, o FetchOptions) (Fetcher, error) {
	fragment := u.Fragment
	switch {
	case u.Host == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("must not have a user or password: it would be in the log of every server and proxy")
	case !isSecure(u):
		return nil, errInsecure
	}
	r := &resource{url: u, opts: o}
	u.Fragment, u.RawFragment = "", ""
	if fragment == "" {
		return r, nil
	}
	digest, ok := strings.CutPrefix(fragment, pinPrefix)
	if raw, err := hex.DecodeString(digest); !ok || err != nil || len(raw) != sha256.Size {
		return nil, errors.New("the part behind # must be sha256= and 64 hexadecimal digits, as `sha256sum FILE` prints them")
	}
	r.pin = strings.ToLower(digest)
	return r, nil
}

// Name implements [Fetcher].
func (r *resource) Name() string { return "descriptor set " + withoutQuery(r.url) }

// ID implements [Fetcher].
func (r *resource) ID() string { return r.url.String() + "#" + pinPrefix + r.pin }

// maxTag bounds the ETags that are sent back.
const maxTag = 1024

// Fetch implements [Fetcher]. What is pinned cannot change, so it is fetched once.
func (r *resource) Fetch(ctx context.Context, tag string, most int) (*Fetched, error) {
	if tag != "" && tag == r.pin {
		return nil, nil
	}
	client, end, err := r.opts.client()
	if err != nil {
		return nil, err
	}
	defer end()
	known, err := r.opts.hostCredentials()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/octet-stream, */*;q=0.5")
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	if secret := known.of(r.url); secret != "" {
		request.Header.Set("Authorization", secret)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, cause(err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is lost: the body was read
	if response.StatusCode == http.StatusNotModified && tag != "" {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	body, err := readBounded(response.Body, response.ContentLength, most)
	if err != nil {
		return nil, err
	}
	if err := r.check(body); err != nil {
		return nil, err
	}
	out := &Fetched{Sets: []FetchedSet{{Name: setName(r.url), Body: body}}, Tag: r.pin}
	if etag := response.Header.Get("ETag"); r.pin == "" && len(etag) <= maxTag {
		out.Tag = etag
	}
	return out, nil
}

// refusal says what the server answered in place of the content.
func refusal(response *http.Response) error {
	text := fmt.Sprintf("the server answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		text += "; credentials of servers are in the file that --descriptors-credentials names"
	}
	return errors.New(text)
}

// check compares the content with its pin.
func (r *resource) check(body []byte) error {
	sum := sha256.Sum256(body)
	if digest := hex.EncodeToString(sum[:]); r.pin != "" && digest != r.pin {
		return fmt.Errorf("the content has the SHA-256 digest %s, and %s is pinned; review the content, then change the pin", digest, r.pin)
	}
	return nil
}

// readBounded reads a body of at most this many bytes. The size is what was announced, or negative.
func readBounded(from io.Reader, size int64, most int) ([]byte, error) {
	if size > int64(most) {
		return nil, tooLarge("it has", most)
	}
	body, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the response: %w", err)
	case len(body) > most:
		return nil, tooLarge("it has", most)
	}
	return body, nil
}

// setName is the name of the set for errors.
func setName(u *url.URL) string {
	if name := path.Base(u.Path); name != "." && name != "/" {
		return name
	}
	return "the response"
}

const (
	artifactPrefix = "oci://"
	// maxManifestBytes bounds a manifest. Registries have the same bound as a rule.
	maxManifestBytes = 4 << 20
	// maxLayers bounds the layers of an artifact: as many as one source has descriptor sets.
	maxLayers = 256
	// unpackAnnotation marks a layer that is a folder, by the tool that most artifacts are pushed with.
	unpackAnnotation = "io.deis.oras.content.unpack"
)

// artifact is an OCI artifact whose layers are descriptor sets.
type artifact struct {
	name string
	ref  registry.Reference
	pin  digest.Digest
	opts FetchOptions
}

func parseArtifact(ref string, o FetchOptions) (Fetcher, error) {
	name := strings.TrimPrefix(ref, artifactPrefix)
	parsed, err := registry.ParseReference(name)
	if err != nil {
		return nil, errors.New("must be oci://HOST/REPOSITORY@sha256:DIGEST, with a tag before the @ for people, if you like")
	}
	pin, err := parsed.Digest()
	if err != nil {
		return nil, fmt.Errorf("must have a digest, because a tag can be moved to something else: add @sha256:DIGEST, as `oras resolve %s` prints it", name)
	}
	if pin.Algorithm() != digest.SHA256 {
		return nil, errors.New("must have a sha256 digest")
	}
	return &artifact{name: name, ref: parsed, pin: pin, opts: o}, nil
}

// Name implements [Fetcher].
func (a *artifact) Name() string { return "OCI artifact " + a.name }

// ID implements [Fetcher].
func (a *artifact) ID() string { return artifactPrefix + a.name }

// Fetch implements [Fetcher]. A digest cannot change what it represents, so the artifact is fetched once.
func (a *artifact) Fetch(ctx context.Context, tag string, most int) (*Fetched, error) {
	if tag == a.pin.String() {
		return nil, nil
	}
	client, end, err := a.opts.client()
	if err != nil {
		return nil, err
	}
	defer end()
	repository, err := a.repository(client)
	if err != nil {
		return nil, err
	}
	out, err := a.pull(ctx, repository, most)
	if err != nil {
		return nil, explain(err)
	}
	return out, nil
}

// repository is the client of the registry for this artifact.
func (a *artifact) repository(client *http.Client) (*remote.Repository, error) {
	known, err := a.opts.credentials()
	if err != nil {
		return nil, err
	}
	repository, err := remote.NewRepository(a.ref.Registry + "/" + a.ref.Repository)
	if err != nil {
		return nil, err
	}
	repository.Client = &auth.Client{Client: client, Credential: known, Cache: auth.NewSingleContextCache()}
	repository.MaxMetadataBytes = maxManifestBytes
	host, err := url.Parse("oci://" + a.ref.Host())
	repository.PlainHTTP = err == nil && isLoopback(host.Hostname())
	return repository, nil
}

// pull gets the manifest and the layers that are descriptor sets.
func (a *artifact) pull(ctx context.Context, from *remote.Repository, most int) (*Fetched, error) {
	manifest, err := a.manifest(ctx, from)
	if err != nil {
		return nil, err
	}
	layers, ignored, err := descriptorSets(manifest.Layers)
	if err != nil {
		return nil, err
	}
	left := int64(most)
	for _, l := range layers {
		if left -= l.Size; l.Size < 0 || left < 0 {
			return nil, tooLarge("its layers have", most)
		}
	}
	out := &Fetched{Ignored: ignored, Tag: a.pin.String()}
	for _, l := range layers {
		body, err := content.FetchAll(ctx, from.Blobs(), l) // checks size and digest
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", layerName(l), err)
		}
		out.Sets = append(out.Sets, FetchedSet{Name: layerName(l), Body: body})
	}
	return out, nil
}

// manifest gets the manifest and checks that it is the pinned one.
func (a *artifact) manifest(ctx context.Context, from *remote.Repository) (*ocispec.Manifest, error) {
	found, in, err := from.Manifests().FetchReference(ctx, a.pin.String())
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // nothing is lost: it was read
	if found.Size > maxManifestBytes {
		return nil, fmt.Errorf("its manifest has more than %d bytes", maxManifestBytes)
	}
	found.Digest = a.pin // whatever the registry says
	raw, err := content.ReadAll(in, found)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	switch found.MediaType {
	case ocispec.MediaTypeImageIndex, "application/vnd.docker.distribution.manifest.list.v2+json":
		return nil, errors.New("it is an index of several artifacts; use the digest of one of them")
	}
	out := &ocispec.Manifest{}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return out, nil
}

// descriptorSets picks the layers that are descriptor sets by their names. One that is alone is one by any name.
func descriptorSets(layers []ocispec.Descriptor) (sets []ocispec.Descriptor, ignored []string, err error) {
	switch {
	case len(layers) == 0, len(layers) == 1 && layers[0].MediaType == ocispec.MediaTypeEmptyJSON:
		return nil, nil, errors.New("it has no layers; push a descriptor set with `oras push HOST/REPOSITORY:TAG api.binpb`")
	case len(layers) > maxLayers:
		return nil, nil, fmt.Errorf("it has more than %d layers", maxLayers)
	}
	for _, l := range layers {
		switch {
		case l.Annotations[unpackAnnotation] == "true":
			return nil, nil, fmt.Errorf("its layer %s is a folder; push the files themselves", layerName(l))
		case len(layers) == 1 || isSetName(l.Annotations[ocispec.AnnotationTitle]):
			sets = append(sets, l)
		default:
			ignored = append(ignored, layerName(l))
		}
	}
	if len(sets) == 0 {
		return nil, nil, errors.New("none of its layers is a descriptor set: their names end in .binpb, .pb or .desc (annotation org.opencontainers.image.title)")
	}
	return sets, ignored, nil
}

// layerName is what people call a layer.
func layerName(l ocispec.Descriptor) string {
	if title := l.Annotations[ocispec.AnnotationTitle]; title != "" {
		return title
	}
	return l.Digest.String()
}

// explain puts an error of a registry in words, without the queries of URLs, which may have signatures.
func explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("the registry requires credentials; %s", credentialsHint)
	case errors.As(err, &answer):
		text := fmt.Sprintf("the registry answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
		if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
			text += "; " + credentialsHint
		}
		return errors.New(text)
	}
	return &unsigned{cause(err)}
}

// unsigned is an error without the queries of URLs in its text.
type unsigned struct{ cause error }

func (u *unsigned) Error() string { return queries().ReplaceAllString(u.cause.Error(), "") }
func (u *unsigned) Unwrap() error { return u.cause }

var queries = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\?[^"\s]*`) })

// FetchOptions are how to reach servers. The zero value has the defaults. Files are read at each fetch, so that new certificates and
// rotated credentials are used without a restart.
type FetchOptions struct {
	// Config has the files with CAs and credentials, and whether programs for credentials are run.
	Config *configv1.Catalog
	// CAs sign the certificates of servers. Nil means those of the configuration.
	CAs *x509.CertPool
	// DockerConfig is the file with the credentials of registries. Empty means config.json in $DOCKER_CONFIG, or in ~/.docker.
	DockerConfig string
}

// CheckCAFile returns why the file with CAs cannot be used, nil if it can.
func (o FetchOptions) CheckCAFile() error {
	_, err := o.tls()
	return err
}

// CheckCredentialsFile returns why the file with credentials cannot be used, nil if it can. The error has nothing of its secrets.
func (o FetchOptions) CheckCredentialsFile() error {
	_, err := o.hostCredentials()
	return err
}

const (
	// handshakeTimeout bounds a TLS handshake, so that the rest of the time is left for another address of the host.
	handshakeTimeout = 10 * time.Second
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
	// maxRedirects bounds redirects. Stores of artifacts use one or two.
	maxRedirects = 5
)

// client returns a client for one fetch, and what ends it.
func (o FetchOptions) client() (*http.Client, func(), error) {
	config, err := o.tls()
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
		TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxHeaderBytes, ForceAttemptHTTP2: true,
		// What is pinned is the file, not a compressed form of it.
		DisableCompression: true,
	}
	return &http.Client{Transport: secured{transport}, CheckRedirect: redirected}, transport.CloseIdleConnections, nil
}

// tls is how certificates of servers are checked.
func (o FetchOptions) tls() (*tls.Config, error) {
	config, err := keys.ReadClient(keys.ClientOptions{CAFile: o.Config.GetFetchCaFile()})
	if err != nil {
		return nil, err
	}
	if o.CAs != nil {
		config.RootCAs = o.CAs
	}
	return config, nil
}

// redirected lets a client follow some redirects. Another server gets no credentials, also on another port or in a domain below,
// where net/http would send them; and no URL, which may have a signature.
func redirected(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if origin(r.URL) != origin(via[0].URL) {
		r.Header.Del("Authorization")
	}
	r.Header.Del("Referer")
	return nil
}

// origin is the server of a URL: scheme, host and port.
func origin(u *url.URL) string {
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	}
	return u.Scheme + "://" + strings.ToLower(host)
}

// secured refuses requests that anybody on the way could read or change. It sees redirects too, and requests to the token
// services that registries name.
type secured struct{ next http.RoundTripper }

func (s secured) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isSecure(r.URL) {
		if r.Body != nil {
			_ = r.Body.Close() // as a transport has to
		}
		return nil, fmt.Errorf("%s: %w", withoutQuery(r.URL), errInsecure)
	}
	return s.next.RoundTrip(r)
}

var errInsecure = errors.New("must be https; http is for loopback only")

// isSecure reports whether requests to a URL stay among those whom they concern.
func isSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// withoutQuery is a URL without its query, which may have a signature.
func withoutQuery(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// cause is an error of a request without the URL, which may have secrets.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}
