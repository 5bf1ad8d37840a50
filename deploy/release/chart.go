// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	// chartConfig and chartContent are the media types of a chart as an OCI artifact, which Helm asks for.
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	// chartVersion is what the repository's charts have where a release has its version.
	chartVersion = "0.1.0-dev"
)

// charts packs each Helm chart of the repository: for `helm install FILE`, and as an OCI artifact for a registry.
func charts(o Options) error {
	names, err := o.charts()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := packChart(o, name); err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
	}
	return nil
}

// charts are the names of the repository's charts.
func (o Options) charts() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(o.Root, "deploy", "helm", o.Names.Package+"*", "Chart.yaml"))
	for n, path := range found {
		found[n] = filepath.Base(filepath.Dir(path))
	}
	return found, err
}

// chartFile is the path of a chart, without its ending.
func (o Options) chartFile(name string) string {
	return filepath.Join(o.Out, "charts", name+"-"+o.Version)
}

func packChart(o Options, name string) error {
	all, err := chartFiles(o, name)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := all.writeTar(&packed, o.Time); err != nil {
		return err
	}
	var about map[string]any
	if err := yaml.Unmarshal(all[name+"/Chart.yaml"].content, &about); err != nil {
		return fmt.Errorf("read Chart.yaml: %w", err)
	}
	if about["version"] != o.Version || about["appVersion"] != o.Version {
		return fmt.Errorf("version and appVersion in Chart.yaml must be %s, where a release writes its own", chartVersion)
	}
	a, err := newArtifact(about, packed.Bytes(), o.Time)
	if err != nil {
		return err
	}
	archive, err := a.archive(o)
	if err != nil {
		return err
	}
	return errors.Join(writeFile(o.chartFile(name)+".tgz", packed.Bytes()), writeFile(o.chartFile(name)+".oci.tar", archive))
}

// chartFiles are the files of a chart, with the release's version. What symbolic links lead to is in it, as Helm packs it.
func chartFiles(o Options, name string) (contents, error) {
	root := filepath.Join(o.Root, "deploy", "helm", name)
	all := contents{}
	return all, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if d.Name() == "Chart.yaml" || d.Name() == "values.yaml" {
			content = bytes.ReplaceAll(content, []byte(chartVersion), []byte(o.Version))
		}
		all[name+"/"+path] = entry{content: content}
		return err
	})
}

// artifact is a chart as registries have it: one layer, and Chart.yaml as the configuration.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

func newArtifact(about map[string]any, packed []byte, at time.Time) (artifact, error) {
	a := artifact{layer: static.NewLayer(packed, chartContent)}
	var err error
	if a.config, err = json.Marshal(about); err != nil {
		return a, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(a.config))
	if err != nil {
		return a, err
	}
	layer, err := partial.Descriptor(a.layer)
	if err != nil {
		return a, err
	}
	annotations := map[string]string{"org.opencontainers.image.created": at.Format(time.RFC3339)}
	for key, from := range map[string]string{"title": "name", "version": "version", "description": "description", "url": "home"} {
		if text, ok := about[from].(string); ok {
			annotations["org.opencontainers.image."+key] = text
		}
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: v1.Descriptor{MediaType: chartConfig, Digest: digest, Size: size},
		Layers: []v1.Descriptor{*layer},
	})
	return a, err
}

// MediaType, RawConfigFile, RawManifest and LayerByDigest make it an image for the library of registries.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }

// archive is the artifact as an OCI layout in a tar.
func (a artifact) archive(o Options) (_ []byte, err error) {
	img, err := partial.CompressedToImage(a)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "outrigger-chart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := at.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.Version})); err != nil {
		return nil, err
	}
	all := contents{}
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = entry{content: content}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = all.writePlainTar(&out, o.Time)
	return out.Bytes(), err
}
