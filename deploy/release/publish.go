// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
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
	// Registry is the address of npm's registry, Image the repository of the sidecar's image. The injector's and the charts' are
	// beside it.
	Registry, Image string
	// Remote is git's remote that gets the tags.
	Remote string
	// Output is where a line goes for each thing that was published.
	Output io.Writer
}

// Check says all that is in the way of publishing a release that Build has made: files that are not those of the version and
// the present commit, and registries that do not accept the owner. Nothing is sent.
func Check(ctx context.Context, o Options, p Publication) error {
	o, err := o.checked(ctx)
	if err != nil {
		return err
	}
	if err := o.verify(); err != nil {
		return err
	}
	var faults []error
	if err := p.loggedIn(ctx); err != nil {
		faults = append(faults, err)
	}
	for _, repository := range []string{p.Image, p.beside(injector), p.beside("charts/" + o.Names.Package)} {
		reference, err := name.NewTag(repository + ":" + o.Version)
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		if err := remote.CheckPushPermission(reference, authn.DefaultKeychain, remote.DefaultTransport); err != nil {
			faults = append(faults, fmt.Errorf("%s cannot be pushed: %w; log in to the registry, such as `docker login %s`", repository, err, reference.RegistryStr()))
		}
	}
	// A name that no release has: tags of an earlier attempt are no fault.
	if _, err := o.git(ctx, "push", "--dry-run", p.Remote, "HEAD:refs/tags/v"+o.Version+"-check"); err != nil {
		faults = append(faults, fmt.Errorf("tags cannot be pushed: %w; name a remote that you may push to", err))
	}
	may, err := gh(ctx, "api", "repos/"+o.Names.repository(), "--jq", ".permissions.push")
	if err == nil && may != "true" {
		err = errors.New("you may only read it")
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("GitHub: %w; set GH_TOKEN to a token that may write releases of %s", err, o.Names.repository()))
	}
	return errors.Join(faults...)
}

// loggedIn asks npm's registry who the owner is.
func (p Publication) loggedIn(ctx context.Context) error {
	if _, err := p.npm(ctx, "whoami"); err != nil {
		return fmt.Errorf("npm's registry does not know you: %w; log in with `npm login --registry=%s`", err, p.Registry)
	}
	return nil
}

// beside is a repository beside the image's.
func (p Publication) beside(name string) string { return path.Dir(p.Image) + "/" + name }

// Publish sends npm packages, images and charts of a release that Build has made. It asks npm who it is first, so that without
// credentials nothing is sent. What an earlier attempt has sent is left as it is.
func Publish(ctx context.Context, o Options, p Publication) error {
	if err := o.verify(); err != nil {
		return err
	}
	if err := p.loggedIn(ctx); err != nil {
		return err
	}
	if err := p.pushImage(ctx, p.Image, o.imageArchive(program), o.Version); err != nil {
		return err
	}
	if err := p.pushImage(ctx, p.beside(injector), o.imageArchive(injector), o.Version); err != nil {
		return err
	}
	if err := p.pushCharts(ctx, o); err != nil {
		return err
	}
	return p.pushPackages(ctx, o)
}

// pushPackages sends npm's packages that are not there yet.
func (p Publication) pushPackages(ctx context.Context, o Options) error {
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
		there, err := p.hasPackage(ctx, o, file)
		if err != nil {
			return err
		}
		if there {
			fmt.Fprintln(p.Output, "npm:", filepath.Base(file), "was there")
			continue
		}
		if _, err := p.npm(ctx, npmArguments(o, file)...); err != nil {
			return err
		}
		fmt.Fprintln(p.Output, "npm:", filepath.Base(file))
	}
	return nil
}

// npmArguments publish a package. A version before a release is not what users get who name none.
func npmArguments(o Options, file string) []string {
	out := []string{"publish", file, "--access", "public"}
	if o.preliminary() {
		out = append(out, "--tag", "next")
	}
	return out
}

// preliminary reports whether the version comes before a release, as 0.2.0-rc.1 does.
func (o Options) preliminary() bool { return strings.Contains(o.Version, "-") }

// hasPackage reports whether the registry has the file. The same version with other bytes is an error.
func (p Publication) hasPackage(ctx context.Context, o Options, file string) (bool, error) {
	called := strings.TrimSuffix(filepath.Base(file), "-"+o.Version+".tgz")
	if called != o.Names.NPM {
		called = o.Names.Scope + "/" + strings.TrimPrefix(called, strings.TrimPrefix(o.Names.Scope, "@")+"-")
	}
	called += "@" + o.Version
	got, err := p.npm(ctx, "view", called, "dist.integrity")
	if err != nil && !strings.Contains(err.Error(), "E404") {
		return false, err
	}
	if got == "" {
		return false, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("npm: %w", err)
	}
	digest := sha512.Sum512(content)
	if want := "sha512-" + base64.StdEncoding.EncodeToString(digest[:]); got != want {
		return false, fmt.Errorf("npm's registry has another %s (%s, this is %s); a version cannot be replaced: release the next one", called, got, want)
	}
	return true, nil
}

// GitHub creates the release whose tags were pushed, or adds what is missing in it.
func GitHub(ctx context.Context, o Options, p Publication) error {
	if err := o.verify(); err != nil {
		return err
	}
	_, err := gh(ctx, "release", "view", "v"+o.Version, "--repo", o.Names.repository())
	args, err := githubArguments(o, err == nil)
	if err != nil {
		return err
	}
	address, err := gh(ctx, args...)
	if err != nil {
		return fmt.Errorf("GitHub: %w; once that is mended, run it again", err)
	}
	fmt.Fprintln(p.Output, "GitHub:", address)
	return nil
}

// githubArguments create a release or, where there is one, add its files anew.
func githubArguments(o Options, there bool) ([]string, error) {
	files, err := o.uploads()
	if err != nil {
		return nil, err
	}
	out := []string{"release", "create", "v" + o.Version, "--repo", o.Names.repository()}
	if there {
		out[1] = "upload"
		out = append(out, "--clobber")
	} else {
		out = append(out, "--verify-tag", "--title", o.Version, "--notes-file", filepath.Join(o.Root, "CHANGELOG.md"))
		if o.preliminary() {
			out = append(out, "--prerelease", "--latest=false")
		}
	}
	for _, file := range files {
		out = append(out, filepath.Join(o.Out, file))
	}
	return out, nil
}

func gh(ctx context.Context, args ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, "gh", args...)) //nolint:gosec // gh, with arguments of this package
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (p Publication) npm(ctx context.Context, args ...string) (string, error) {
	return outputOf(exec.CommandContext(ctx, "npm", append(args, "--registry", p.Registry)...)) //nolint:gosec // npm, with arguments of this package
}

// outputOf runs a command and returns what it prints. What it prints about a failure is in the error.
func outputOf(cmd *exec.Cmd) (string, error) {
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// pushImage unpacks the archive of an image and pushes it under its version.
func (p Publication) pushImage(ctx context.Context, repository, archive, version string) error {
	return p.push(ctx, "image", repository, archive, version, func(root v1.ImageIndex, first v1.Hash) (remote.Taggable, error) {
		return root.ImageIndex(first)
	})
}

// pushCharts pushes the charts. Helm adds the name of a chart to the repository.
func (p Publication) pushCharts(ctx context.Context, o Options) error {
	names, err := o.charts()
	if err != nil {
		return err
	}
	for _, chart := range names {
		err := p.push(ctx, "chart", p.beside("charts/"+chart), o.chartFile(chart)+".oci.tar", o.Version, func(root v1.ImageIndex, first v1.Hash) (remote.Taggable, error) {
			return root.Image(first)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// push unpacks an OCI archive and pushes what open finds in it.
func (p Publication) push(ctx context.Context, what, repository, archive, version string, open func(v1.ImageIndex, v1.Hash) (remote.Taggable, error)) error {
	reference, err := name.NewTag(repository + ":" + version)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	folder, err := os.MkdirTemp("", "outrigger-push-")
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	root, first, err := openArchive(archive, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	content, err := open(root, first)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch content := content.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(reference, content, options...)
	case v1.Image:
		err = remote.Write(reference, content, options...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; log in to the registry, such as `docker login %s`", what, err, reference.RegistryStr())
	}
	fmt.Fprintf(p.Output, "%s: %s@%s\n", what, reference, first)
	return nil
}

// openArchive unpacks an OCI archive into a folder and returns its root with the digest of the one thing in it.
func openArchive(archive, folder string) (v1.ImageIndex, v1.Hash, error) {
	if err := unpack(archive, folder); err != nil {
		return nil, v1.Hash{}, err
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, v1.Hash{}, fmt.Errorf("the archive has %d images, want one", len(manifest.Manifests))
	}
	return root, manifest.Manifests[0].Digest, nil
}

func unpack(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%q is outside of the archive", header.Name)
		}
		content, err := io.ReadAll(io.LimitReader(r, largestSource))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(folder, header.Name), content); err != nil { //nolint:gosec // names are local, see above
			return err
		}
	}
}

// Tag makes the tags of a release, which are pushed by hand: proto/options/vX.Y.Z at the commit, and vX.Y.Z at a commit behind
// it that has the released go.mod, go.sum and README. The working tree and the branch stay as they are, and so do tags of an
// earlier attempt, if they have the same content.
func Tag(ctx context.Context, o Options) error {
	o, err := o.checked(ctx)
	if err != nil {
		return err
	}
	if err := o.verify(); err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	work, err := os.MkdirTemp("", "outrigger-tag-")
	if err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // git, with arguments of this package
		cmd.Dir = o.Root
		at := o.Time.Format("2006-01-02T15:04:05Z")
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(work, "index"), "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at)
		return outputOf(cmd)
	}
	if _, err := git("read-tree", o.Commit); err != nil {
		return err
	}
	for _, file := range releasedFiles() {
		path, err := filepath.Abs(filepath.Join(o.Out, "go", file))
		if err != nil {
			return fmt.Errorf("tag: %w", err)
		}
		blob, err := git("hash-object", "-w", path)
		if err != nil {
			return err
		}
		if _, err := git("update-index", "--add", "--cacheinfo", "100644,"+blob+","+file); err != nil {
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
	for _, tag := range []struct{ name, commit string }{
		{strings.TrimPrefix(o.Names.Options, o.Names.Module+"/") + "/v" + o.Version, o.Commit},
		{"v" + o.Version, commit},
	} {
		if there, err := git("rev-parse", "--verify", "--quiet", "refs/tags/"+tag.name+"^{commit}"); err != nil {
			if _, err := git("tag", tag.name, tag.commit); err != nil {
				return err
			}
		} else if _, err := git("diff", "--quiet", there, tag.commit); err != nil {
			return fmt.Errorf("tag: %s already exists with other content; release the next version or, if it was never pushed, remove it with `git tag -d %s`", tag.name, tag.name)
		}
	}
	return nil
}
