// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

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
	opts Options
}

func parseArtifact(ref string, o Options) (source.Fetcher, error) {
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

// Name implements [source.Fetcher].
func (a *artifact) Name() string { return "OCI artifact " + a.name }

// ID implements [source.Fetcher].
func (a *artifact) ID() string { return artifactPrefix + a.name }

// Fetch implements [source.Fetcher]. A digest cannot change what it stands for, so the artifact is fetched once.
func (a *artifact) Fetch(ctx context.Context, tag string, most int) (*source.Fetched, error) {
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
func (a *artifact) pull(ctx context.Context, from *remote.Repository, most int) (*source.Fetched, error) {
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
			return nil, fmt.Errorf("its layers have more than %d bytes, the limit for one source (limits.max_descriptor_bytes)", most)
		}
	}
	out := &source.Fetched{Ignored: ignored, Tag: a.pin.String()}
	for _, l := range layers {
		body, err := content.FetchAll(ctx, from.Blobs(), l) // checks size and digest
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", layerName(l), err)
		}
		out.Sets = append(out.Sets, source.FetchedSet{Name: layerName(l), Body: body})
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
		case len(layers) == 1 || source.IsSetName(l.Annotations[ocispec.AnnotationTitle]):
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

func (u *unsigned) Error() string { return queries.ReplaceAllString(u.cause.Error(), "") }
func (u *unsigned) Unwrap() error { return u.cause }

var queries = regexp.MustCompile(`\?[^"\s]*`)
