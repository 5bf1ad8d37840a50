// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is who a container of these images runs as: not root, and a number,
// because restricted pods are refused where it is a name.
const User = "65532:65532"

// source is where the code is.
const source = "https://github.com/outrigger-mcp/outrigger"

// makeImage puts a binary into the root of an empty image.
func makeImage(p Program, o Options, platform v1.Platform, binary string) (v1.Image, error) {
	content, err := rootOf(p.Name, binary, o.Time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: o.Time}, CreatedBy: "go build " + p.Package, Comment: "a static binary on an empty base"},
	})
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	ports := map[string]struct{}{}
	for _, port := range p.Ports {
		ports[port] = struct{}{}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: o.Time}
	config.Config = v1.Config{
		User: User, Entrypoint: []string{"/" + p.Name}, WorkingDir: "/", ExposedPorts: ports,
		Labels: map[string]string{
			"org.opencontainers.image.title":       p.Title,
			"org.opencontainers.image.description": p.Description,
			"org.opencontainers.image.version":     o.Version,
			"org.opencontainers.image.revision":    o.Commit,
			"org.opencontainers.image.created":     o.Time.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      source,
			"org.opencontainers.image.url":         source,
		},
	}
	if p.Server != "" {
		config.Config.Labels["io.modelcontextprotocol.server.name"] = p.Server
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("image configuration: %w", err)
	}
	return img, nil
}

// rootOf is the tar of a root folder with one program in it.
func rootOf(name, binary string, at time.Time) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("the binary: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return out.Bytes(), nil
}
