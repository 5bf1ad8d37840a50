// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Options say what an image is called and where it goes.
type Options struct {
	// Repository is what is before the program's name, such as
	// "registry.example/outrigger".
	Repository string
	// Version is the tag, Commit the revision that it was built from.
	Version, Commit string
	// Time is the only time in the image and in its bill of materials: that of the
	// commit. It is cut to seconds, in UTC.
	Time time.Time
	// Platforms are what to build for. Empty means linux/amd64 and linux/arm64.
	Platforms []v1.Platform
	// Out is the folder for archives and bills of materials. It is made.
	Out string
}

// Built is what was made of one program.
type Built struct {
	// Reference is the image's full name with its tag.
	Reference string
	// Archive is the OCI archive with the images of all platforms.
	Archive string
	// Digest is that of the index in it.
	Digest string
	// Materials are the bills of materials, one a platform.
	Materials []string
}

// DefaultPlatforms are what the images are built for.
func DefaultPlatforms() []v1.Platform {
	return []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}
}

func (o Options) withDefaults() (Options, error) {
	var faults []error
	if o.Repository == "" {
		faults = append(faults, errors.New("there is no repository; name one, such as registry.example/outrigger"))
	}
	if o.Version == "" {
		faults = append(faults, errors.New("there is no version; name one, such as 0.1.0"))
	}
	if o.Time.IsZero() {
		faults = append(faults, errors.New("there is no time; give the commit's, such as `git log -1 --format=%cI`"))
	}
	if o.Out == "" {
		faults = append(faults, errors.New("there is no folder for the archives"))
	}
	if len(o.Platforms) == 0 {
		o.Platforms = DefaultPlatforms()
	}
	o.Time = o.Time.UTC().Truncate(time.Second)
	return o, errors.Join(faults...)
}

// Build compiles a program for every platform and writes its archive and bills
// of materials. Files that were there are replaced.
func Build(ctx context.Context, p Program, o Options) (Built, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Built{}, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil { //nolint:gosec // archives are for everybody to read
		return Built{}, fmt.Errorf("image: %w", err)
	}
	work, err := os.MkdirTemp("", "outrigger-image-")
	if err != nil {
		return Built{}, fmt.Errorf("image: %w", err)
	}
	built, err := build(ctx, p, o, work)
	return built, errors.Join(err, os.RemoveAll(work))
}

func build(ctx context.Context, p Program, o Options, work string) (Built, error) {
	built := Built{Reference: o.Repository + "/" + p.Name + ":" + o.Version}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range o.Platforms {
		label := platform.OS + "-" + platform.Architecture
		binary := p.Binary(p.Compiled, platform)
		if p.Compiled == "" {
			binary = p.Binary(work, platform)
			if err := p.Compile(ctx, platform, binary); err != nil {
				return Built{}, err
			}
		}
		img, err := makeImage(p, o, platform, binary)
		if err != nil {
			return Built{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: &platform},
		})
		materials := filepath.Join(o.Out, fmt.Sprintf("%s-%s-%s.cdx.json", p.Name, o.Version, label))
		if err := WriteMaterials(materials, p, o, binary); err != nil {
			return Built{}, err
		}
		built.Materials = append(built.Materials, materials)
	}
	digest, err := index.Digest()
	if err != nil {
		return Built{}, fmt.Errorf("index: %w", err)
	}
	built.Digest = digest.String()
	built.Archive = filepath.Join(o.Out, fmt.Sprintf("%s-%s.oci.tar", p.Name, o.Version))
	return built, writeArchive(built, o, index, filepath.Join(work, "layout"))
}
