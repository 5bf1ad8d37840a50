// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Publication says where a release goes. Credentials are those of npm's and Docker's own configuration.
type Publication struct {
	// Registry is the address of npm's registry, Image the repository of the image.
	Registry, Image string
	// Output is where a line goes for each thing that was published.
	Output io.Writer
}

// Publish sends npm packages and the image of a release that Build has made. It asks npm who it is first, so that without
// credentials nothing is sent.
func Publish(ctx context.Context, o Options, p Publication) error {
	if _, err := os.Stat(o.imageArchive()); err != nil {
		return fmt.Errorf("there is no release %s in %s: %w; build it with `make release VERSION=%s`", o.Version, o.Out, err, o.Version)
	}
	if _, err := p.npm(ctx, "whoami"); err != nil {
		return fmt.Errorf("npm's registry does not know you: %w; log in with `npm login --registry=%s`", err, p.Registry)
	}
	if err := p.pushImage(ctx, o); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(o.Out, "npm", "*-"+o.Version+".tgz"))
	if err != nil || len(packages) == 0 {
		return errors.Join(fmt.Errorf("there are no npm packages of %s in %s", o.Version, o.Out), err)
	}
	// The package that users name is the last, because it needs the others.
	own := o.Names.NPM + "-" + o.Version + ".tgz"
	slices.SortStableFunc(packages, func(a, b string) int {
		return btoi(filepath.Base(a) == own) - btoi(filepath.Base(b) == own)
	})
	for _, file := range packages {
		if _, err := p.npm(ctx, "publish", file, "--access", "public"); err != nil {
			return err
		}
		fmt.Fprintln(p.Output, "npm:", filepath.Base(file))
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p Publication) npm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "npm", append(args, "--registry", p.Registry)...) //nolint:gosec // npm, with arguments of this package
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// pushImage unpacks the archive of the image and pushes it under its version.
func (p Publication) pushImage(ctx context.Context, o Options) error {
	reference, err := name.NewTag(p.Image + ":" + o.Version)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	folder, err := os.MkdirTemp("", "outrigger-push-")
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	index, err := openImage(o.imageArchive(), folder)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("image: %w; log in to the registry, such as `docker login %s`", err, reference.RegistryStr())
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	fmt.Fprintf(p.Output, "image: %s@%s\n", reference, digest)
	return nil
}

// openImage unpacks an OCI archive into a folder and returns the one index in it.
func openImage(archive, folder string) (v1.ImageIndex, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !filepath.IsLocal(header.Name) {
			return nil, fmt.Errorf("%q is outside of the archive", header.Name)
		}
		content, err := io.ReadAll(io.LimitReader(r, largestSource))
		if err != nil {
			return nil, err
		}
		if err := writeFile(filepath.Join(folder, header.Name), content); err != nil { //nolint:gosec // names are local, see above
			return nil, err
		}
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the archive has %d images, want one", len(manifest.Manifests))
	}
	return root.ImageIndex(manifest.Manifests[0].Digest)
}

// Tag makes the tags of a release, which are pushed by hand: proto/options/vX.Y.Z at the commit, and vX.Y.Z at a commit behind
// it that has the released go.mod and go.sum. The working tree and the branch stay as they are.
func Tag(ctx context.Context, o Options) error {
	o, err := o.checked(ctx)
	if err != nil {
		return err
	}
	statement, err := readStatement(filepath.Join(o.Out, "provenance.intoto.jsonl"))
	if err != nil {
		return fmt.Errorf("tag: %w; build the release with `make release VERSION=%s`", err, o.Version)
	}
	if !strings.Contains(string(statement), o.Commit) {
		return fmt.Errorf("tag: the release in %s was not built from the present commit %s; build it again", o.Out, o.Commit)
	}
	index := filepath.Join(o.Out, ".index")
	defer func() { _ = os.Remove(index) }()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // git, with arguments of this package
		cmd.Dir = o.Root
		at := o.Time.Format("2006-01-02T15:04:05Z")
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index, "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), nil
	}
	if index, err = filepath.Abs(index); err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	if _, err := git("read-tree", o.Commit); err != nil {
		return err
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		path, err := filepath.Abs(filepath.Join(o.Out, "go", file))
		if err != nil {
			return fmt.Errorf("tag: %w", err)
		}
		blob, err := git("hash-object", "-w", path)
		if err != nil {
			return err
		}
		if _, err := git("update-index", "--cacheinfo", "100644,"+blob+","+file); err != nil {
			return err
		}
	}
	tree, err := git("write-tree")
	if err != nil {
		return err
	}
	commit, err := git("commit-tree", tree, "-p", o.Commit, "-m", "release "+o.Version+": the annotations are required in their release")
	if err != nil {
		return err
	}
	folder := strings.TrimPrefix(o.Names.Options, o.Names.Module+"/")
	if _, err := git("tag", folder+"/v"+o.Version, o.Commit); err != nil {
		return err
	}
	_, err = git("tag", "v"+o.Version, commit)
	return err
}

// readStatement returns the statement in an envelope.
func readStatement(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(content, &envelope); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return envelope.Payload, nil
}
