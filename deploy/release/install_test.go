// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sassoftware/go-rpmutils"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
	"golang.org/x/sys/unix"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	helmregistry "helm.sh/helm/v3/pkg/registry"
)

// TestInstall takes every row of the README's table that is marked "from 0.1.0", and installs and uses what its command
// installs, from a local registry where there is one. A row without a test fails, and a test without a row.
func TestInstall(t *testing.T) {
	o := built(t)
	rows := publishedRows(t, o)
	for how, test := range map[string]func(*testing.T, Options, string){
		"npm": npmRow, "Go": goRow, "Homebrew": brewRow, "Debian": debRow, "RPM": rpmRow, "archive": archiveRow, "image": imageRow, "Helm": helmRow,
	} {
		t.Run(how, func(t *testing.T) {
			command, ok := rows[how]
			if !ok {
				t.Fatal("the README has no such row")
			}
			test(t, o, command)
		})
		delete(rows, how)
	}
	for how := range rows {
		t.Errorf("the README's row %q has no test", how)
	}
}

// publishedRows are the commands of the README's rows that are marked "from VERSION", by how they install.
func publishedRows(t *testing.T, o Options) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(o.Root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+), from "+regexp.QuoteMeta(o.Version)+" \\| `([^`]+)`").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2]
	}
	return rows
}

func wantCommand(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the README says %q, want %q", got, want)
	}
}

// archiveRow runs the binary where there is nothing but the unpacked archive: no libc, no /tmp, no certificates.
func archiveRow(t *testing.T, o Options, row string) {
	base := o.fileName(o.Platforms[0])
	wantCommand(t, row, "tar -xzf "+base+".tar.gz")
	folder := unpacked(t, filepath.Join(o.Out, base+".tar.gz"))
	for _, want := range []string{"LICENSE", "README.md", "man/sidecar-serve.1", "completions/sidecar.bash", "completions/_sidecar", "completions/sidecar.fish"} {
		if info, err := os.Stat(filepath.Join(folder, base, want)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	wantVersion(t, run(t, confined(t, folder, "/"+base+"/"+program, "version")), o)
	demo(t, confined(t, folder, "/"+base+"/"+program))
}

// debRow installs the package into an empty root, runs it there, and removes it again.
func debRow(t *testing.T, o Options, row string) {
	base := o.fileName(o.Platforms[0]) + ".deb"
	wantCommand(t, row, "apt install ./"+base)
	root := t.TempDir()
	for _, folder := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) string {
		return run(t, command(t, "dpkg", append([]string{"--root=" + root, "--log=" + filepath.Join(root, "log"), "--force-not-root", "--force-script-chrootless"}, args...)...))
	}
	dpkg("--install", filepath.Join(o.Out, base))
	if status := dpkg("--status", o.Names.Package); !strings.Contains(status, "Version: "+o.Version+"\n") || !strings.Contains(status, "Status: install ok installed") {
		t.Errorf("%s", status)
	}
	listed := dpkg("--listfiles", o.Names.Package)
	for _, want := range []string{"/usr/bin/sidecar", "/usr/bin/outrigger", "/usr/share/man/man1/sidecar.1", "/usr/share/bash-completion/completions/sidecar", "/usr/share/doc/outrigger/LICENSE"} {
		if !strings.Contains(listed, want+"\n") {
			t.Errorf("%s is not in the package:\n%s", want, listed)
		}
	}
	wantVersion(t, run(t, confined(t, root, "/usr/bin/"+o.Names.Package, "version")), o)
	demo(t, confined(t, root, "/usr/bin/"+program))
	dpkg("--remove", o.Names.Package)
	if left, err := os.Stat(filepath.Join(root, "usr/bin", program)); err == nil {
		t.Errorf("%s is left", left.Name())
	}
}

// rpmRow reads the package back, with a library that others wrote, checks its digests, and runs the binary in it.
func rpmRow(t *testing.T, o Options, row string) {
	base := o.fileName(o.Platforms[0]) + ".rpm"
	wantCommand(t, row, "dnf install ./"+base)
	file, err := os.Open(filepath.Join(o.Out, base))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, _, err := rpmutils.Verify(file, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	p, err := rpmutils.ReadRpm(file)
	if err != nil {
		t.Fatal(err)
	}
	nevra, err := p.Header.GetNEVRA()
	if err != nil {
		t.Fatal(err)
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if nevra.Name != o.Names.Package || nevra.Version != o.Version || nevra.Arch != machine {
		t.Errorf("the package is %s", nevra)
	}
	if requires, err := p.Header.GetStrings(rpmutils.REQUIRENAME); err == nil {
		for _, name := range requires {
			if !strings.HasPrefix(name, "rpmlib(") {
				t.Errorf("it requires %s", name)
			}
		}
	}
	root := t.TempDir()
	if err := p.ExpandPayload(root); err != nil {
		t.Fatal(err)
	}
	// The library leaves modes to its user.
	files, err := p.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path, mode := filepath.Join(root, f.Name()), os.FileMode(f.Mode())
		if info, err := os.Lstat(path); err != nil || f.UserName() != "root" {
			t.Errorf("%s of %s: %v", f.Name(), f.UserName(), err)
		} else if info.Mode().IsRegular() {
			if err := os.Chmod(path, mode.Perm()); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantVersion(t, run(t, confined(t, root, "/usr/bin/"+o.Names.Package, "version")), o)
}

// brewRow compares the command; TestFormula reads the formula.
func brewRow(t *testing.T, o Options, row string) {
	wantCommand(t, row, "brew install "+o.Names.Tap+"/"+o.Names.Package)
}

// goRow installs from the module proxy of the release, with an empty module cache. Other modules come from this machine's.
func goRow(t *testing.T, o Options, row string) {
	wantCommand(t, row, "go install "+o.Names.Module+"/cmd/"+program+"@v"+o.Version)
	cache := strings.TrimSpace(run(t, command(t, "go", "env", "GOMODCACHE")))
	bin, modules := t.TempDir(), filepath.Join(t.TempDir(), "modules")
	args := strings.Fields(row)
	// The same flags as the binary's, so that other modules are compiled already.
	cmd := command(t, args[0], append([]string{args[1], "-trimpath", "-tags", "grpcnotrace", "-modcacherw"}, args[2:]...)...)
	cmd.Dir = bin
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+bin, "GOMODCACHE="+modules, "GONOSUMDB=*", "GONOSUMCHECK=1", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+filepath.Join(o.Out, "go", "proxy")+",file://"+filepath.Join(cache, "cache", "download"))
	run(t, cmd)
	got := run(t, command(t, filepath.Join(bin, program), "version"))
	if !strings.HasPrefix(got, "sidecar v"+o.Version+"\n") {
		t.Errorf("version says %q", got)
	}
	demo(t, command(t, filepath.Join(bin, program)))
}

// TestTag makes the tags in a clone, and compares the module of the tag, as a proxy makes it of the repository, with that of
// the release.
func TestTag(t *testing.T) {
	o := built(t)
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, command(t, "git", "clone", "-q", "--shared", o.Root, clone))
	for _, key := range []string{"user.name", "user.email"} {
		run(t, command(t, "git", "-C", clone, "config", key, "release@example.com"))
	}
	before := run(t, command(t, "git", "-C", clone, "rev-parse", "HEAD"))
	source := o
	o.Root = clone
	if err := Tag(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := Tag(t.Context(), o); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if after := run(t, command(t, "git", "-C", clone, "rev-parse", "HEAD")); after != before {
		t.Errorf("the branch moved from %s to %s", before, after)
	}
	if changes := run(t, command(t, "git", "-C", clone, "status", "--porcelain")); changes != "" {
		t.Errorf("the working tree has changes: %s", changes)
	}
	for path, folder := range map[string]string{source.Names.Module: "", source.Names.Options: "proto/options"} {
		m := module.Version{Path: path, Version: "v" + source.Version}
		tag := strings.TrimPrefix(folder+"/"+m.Version, "/")
		file, err := os.Create(filepath.Join(t.TempDir(), "module.zip"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(zip.CreateFromVCS(file, m, clone, tag, folder), file.Close()); err != nil {
			t.Fatal(err)
		}
		want, err := dirhash.HashZip(file.Name(), dirhash.Hash1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := dirhash.HashZip(filepath.Join(source.Out, "go", "proxy", path, "@v", m.Version+".zip"), dirhash.Hash1)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the release has %s, the tag %s", m, got, want)
		}
	}
}

// imageRow pushes the image to a registry, pulls it, and runs its root folder, which is read-only, as the user of the image.
func imageRow(t *testing.T, o Options, row string) {
	wantCommand(t, row, "docker run --rm "+o.Names.Image+":"+o.Version+" version")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/" + strings.SplitN(o.Names.Image, "/", 2)[1]
	if err := (Publication{Output: io.Discard}).pushImage(t.Context(), repository, o.imageArchive(program), o.Version); err != nil {
		t.Fatal(err)
	}
	reference, err := name.NewTag(repository + ":" + o.Version)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		"io.modelcontextprotocol.server.name": o.Names.Server, "org.opencontainers.image.source": o.Names.Homepage,
		"org.opencontainers.image.version": o.Version, "org.opencontainers.image.revision": o.Commit,
	} {
		if got := config.Config.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	root := filepath.Join(out, "image")
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFile(filepath.Join(root, header.Name), bytes); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(root, header.Name), header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("to run it as another user on a read-only root takes root")
	}
	contained := func(args ...string) *exec.Cmd {
		const script = `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot --userspec="$1" "$0" "$2" "${@:3}"`
		return command(t, "unshare", append([]string{"--mount", "bash", "-c", script, root, config.Config.User, config.Config.Entrypoint[0]}, args...)...)
	}
	cmd := contained("version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	wantVersion(t, run(t, cmd), o)
	if log := demo(t, contained(), "--record-dir", "/runs"); !strings.Contains(log, "read-only file system") {
		t.Errorf("nothing says that the root is read-only:\n%s", log)
	}
}

// helmRow pushes the charts to a registry, pulls them by Helm's library, and renders them. The images that they name are those
// of the release.
func helmRow(t *testing.T, o Options, row string) {
	published := Publication{Image: o.Names.Image}
	wantCommand(t, row, "helm install outrigger oci://"+published.beside("charts")+"/"+o.Names.Package+" --version "+o.Version+" --namespace outrigger-system --create-namespace")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	p := Publication{Image: host + "/outrigger/" + program, Output: io.Discard}
	if err := p.pushCharts(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard), helmregistry.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "config.json")))
	if err != nil {
		t.Fatal(err)
	}
	pulled := func(name string) *chart.Chart {
		got, err := client.Pull(host + "/outrigger/charts/" + name + ":" + o.Version)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(o.chartFile(name) + ".tgz")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Chart.Data, want) || got.Chart.Meta.Name != name || got.Chart.Meta.AppVersion != o.Version {
			t.Errorf("the registry has another chart %s: %v", name, got.Chart.Meta)
		}
		c, err := loader.LoadArchive(bytes.NewReader(got.Chart.Data))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	rendered := func(c *chart.Chart, v map[string]any) string {
		if err := chartutil.ProcessDependenciesWithMerge(c, v); err != nil {
			t.Fatal(err)
		}
		all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "outrigger", Namespace: "outrigger-system"}, chartutil.DefaultCapabilities)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.Render(c, all)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, text := range files {
			out.WriteString(text)
		}
		return out.String()
	}
	got := rendered(pulled(o.Names.Package), map[string]any{"dashboards": map[string]any{"enabled": true}})
	for _, want := range []string{
		"image: \"" + published.beside(injector) + ":" + o.Version + "\"\n", "--image=" + o.Names.Image + ":" + o.Version + "\n", "kind: MutatingWebhookConfiguration", "outrigger-fleet.json: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart renders no %q", want)
		}
	}
	team := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "shop", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/pod.yaml", Data: []byte(`{{ define "shop.pod" }}{spec: {containers: [{name: shop}]}}{{ end }}` +
			`{{ include "outrigger-sidecar.pod" (dict "root" $ "name" "shop" "pod" "shop.pod" "values" (dict "port" 9090)) }}`)}},
	}
	team.AddDependency(pulled(o.Names.Package + "-sidecar"))
	if got, want := rendered(team, map[string]any{}), "image: "+o.Names.Image+":"+o.Version+"\n"; !strings.Contains(got, want) {
		t.Errorf("the pod has no %q:\n%s", want, got)
	}
	// The image that the chart names is in the release, and runs.
	if err := p.pushImage(t.Context(), p.beside(injector), o.imageArchive(injector), o.Version); err != nil {
		t.Fatal(err)
	}
	reference, err := name.NewTag(p.beside(injector) + ":" + o.Version)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		t.Fatal(err)
	}
	if config, err := img.ConfigFile(); err != nil || config.Config.Entrypoint[0] != "/"+injector || config.Config.Labels["org.opencontainers.image.version"] != o.Version {
		t.Errorf("the injector's image: %v (%v)", config, err)
	}
}

// npmRegistry starts a real registry for npm, logs in to it, and makes npm use it, with an empty cache and configuration.
func npmRegistry(t *testing.T) string {
	t.Helper()
	if *npm == "" {
		t.Skip("`make release-test` installs the registry, and runs this")
	}
	folder, address := t.TempDir(), freeAddress(t)
	url := "http://" + address + "/"
	settings := "storage: " + folder + "/storage\nauth: {htpasswd: {file: " + folder + "/htpasswd}}\nweb: {enable: false}\n" +
		"max_body_size: 100mb\npackages: {'**': {access: $all, publish: $authenticated}}\nlog: {type: stdout, format: json, level: http}\n"
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "node", filepath.Join(*npm, "node_modules", "verdaccio", "bin", "verdaccio"), "--config", filepath.Join(folder, "config.yaml"), "--listen", address)
	cmd.WaitDelay = time.Second
	served(t, cmd, "http address")

	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("npm_config_cache", filepath.Join(home, "cache"))
	t.Setenv("npm_config_userconfig", filepath.Join(home, "npmrc"))
	t.Setenv("npm_config_registry", url)
	t.Setenv("npm_config_update_notifier", "false")
	return url
}

// npmLogin makes a user and gives npm its token.
func npmLogin(t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"-/user/org.couchdb.user:owner", strings.NewReader(`{"name":"owner","password":"a-throwaway-password"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var user struct{ Token string }
	if err := json.NewDecoder(got.Body).Decode(&user); err != nil || user.Token == "" {
		t.Fatalf("no token: %s (%v)", got.Status, err)
	}
	line := fmt.Sprintf("%s:_authToken=%s\n", strings.TrimPrefix(url, "http:"), user.Token)
	if err := os.WriteFile(os.Getenv("npm_config_userconfig"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}

// npmRow publishes all packages to a registry, as `make publish` does, and runs the README's command in an empty folder, with
// an empty cache. Without a login nothing is published.
func npmRow(t *testing.T, o Options, row string) {
	wantCommand(t, row, "npx "+o.Names.NPM+" serve --demo")
	url := npmRegistry(t)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer images.Close()
	p := Publication{Registry: url, Image: strings.TrimPrefix(images.URL, "http://") + "/" + program, Output: io.Discard}
	if err := Publish(t.Context(), o, p); err == nil || !strings.Contains(err.Error(), "npm login") {
		t.Fatalf("without a login: %v", err)
	}
	npmLogin(t, url)
	if err := Publish(t.Context(), o, p); err != nil {
		t.Fatal(err)
	}

	npx := func(args ...string) *exec.Cmd {
		cmd := command(t, "npx", append([]string{"--yes"}, args...)...)
		cmd.Dir = t.TempDir()
		return cmd
	}
	began := time.Now()
	wantVersion(t, run(t, npx(o.Names.NPM, "version")), o)
	t.Logf("installed and ran in %v", time.Since(began).Round(10*time.Millisecond))
	demo(t, npx(o.Names.NPM))

	// Arguments, exit codes, standard input and signals pass.
	stdio := npx(o.Names.NPM, "stdio", "--demo", "--log-level", "error")
	stdio.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}` + "\n")
	if got := run(t, stdio); got != `{"jsonrpc":"2.0","id":"1","result":{}}`+"\n" {
		t.Errorf("stdio: %q", got)
	}
	var ended *exec.ExitError
	if err := npx(o.Names.NPM, "call", "no.tool", "--demo").Run(); !errors.As(err, &ended) || ended.ExitCode() != 3 {
		t.Errorf("a call that fails: %v", err)
	}
	t.Run("without optional dependencies", func(t *testing.T) {
		folder := t.TempDir()
		install := command(t, "npm", "install", "--omit=optional", "--no-audit", "--no-fund", o.Names.NPM)
		install.Dir = folder
		run(t, install)
		text, err := command(t, filepath.Join(folder, "node_modules", ".bin", o.Names.NPM), "version").CombinedOutput()
		if err == nil || !strings.Contains(string(text), "--omit=optional") {
			t.Errorf("%v %s", err, text)
		}
	})
	t.Run("the page", func(t *testing.T) { pageFromNpx(t, o) })
}

// TestInterrupt sends one SIGINT to the program of the npm package: by a terminal's Ctrl-C, with a standard input that is no
// terminal, and from another process. What it started gets one each time.
func TestInterrupt(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no node")
	}
	folder := t.TempDir()
	system, processor := npmPlatform(v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH})
	child := filepath.Join(folder, "node_modules", "@scope", system+"-"+processor, "bin", program)
	// Its exit code is 40 and how many it got.
	const counts = `#!/usr/bin/env node
let times = 0;
setInterval(() => {}, 1000);
process.on("SIGINT", () => { times++; console.log("interrupted"); });
process.on("SIGTERM", () => process.exit(40 + times));
console.log("ready");
`
	script := filepath.Join(folder, "bin.js")
	if err := errors.Join(writeFile(child, []byte(counts)), os.Chmod(child, 0o755), writeFile(script, bytes.ReplaceAll(npmBin, []byte("@SCOPE@"), []byte("@scope")))); err != nil {
		t.Fatal(err)
	}
	for name, hasTerminal := range map[string]bool{"Ctrl-C": true, "another process": false} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, "node", script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			var keyboard *os.File
			if hasTerminal {
				var terminal *os.File
				keyboard, terminal = pseudoTerminal(t)
				cmd.ExtraFiles = []*os.File{terminal}
				cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 3
			}
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(pipe)
			say := func(want string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != want {
					t.Errorf("it said %q, want %q", lines.Text(), want)
				}
			}
			say("ready")
			if hasTerminal {
				_, err = keyboard.WriteString("\x03")
			} else {
				err = cmd.Process.Signal(syscall.SIGINT)
			}
			if err != nil {
				t.Fatal(err)
			}
			say("interrupted")
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, pipe)
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 41 {
				t.Errorf("exit code %d, want 41: it got one SIGINT", got)
			}
		})
	}
}

// pseudoTerminal opens both ends of a terminal.
func pseudoTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

// pageFromNpx runs docs/npx.md command by command, and prints their times.
func pageFromNpx(t *testing.T, o Options) {
	page, err := os.ReadFile(filepath.Join(o.Root, "docs", "npx.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder, address := t.TempDir(), freeAddress(t)
	t.Setenv("npm_config_cache", filepath.Join(folder, "cache"))
	t.Setenv("npm_config_yes", "true")
	began := time.Now()
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```(?:\n+```(json|text)\n(.*?)```)?").FindAllStringSubmatch(string(page), -1)
	compared := 0
	for _, block := range blocks {
		step := time.Now()
		cmd := command(t, "bash", "-c", strings.ReplaceAll(block[1], "127.0.0.1:8080", address))
		cmd.Dir = folder
		if strings.Contains(block[1], " serve ") {
			cmd.Env = append(os.Environ(), "OUTRIGGER_LISTEN="+address, "OUTRIGGER_ADMIN=127.0.0.1:0")
			served(t, cmd, `"msg":"ready"`)
		} else {
			cmd.Stderr = t.Output()
			got, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", block[1], err)
			}
			if block[3] != "" {
				compared++
				if strings.TrimSpace(string(got)) != strings.TrimSpace(block[3]) {
					t.Errorf("%s\nprints\n%s\nand not\n%s", block[1], got, block[3])
				}
			}
		}
		t.Logf("%6v  %s", time.Since(step).Round(10*time.Millisecond), strings.SplitN(strings.TrimSpace(block[1]), "\n", 2)[0])
	}
	// The page means a machine with nothing else to do, as testkit.Limit does.
	limit, load := time.Minute, 0.0
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
		limit = time.Duration(float64(limit) * max(1, load/float64(runtime.NumCPU())))
	}
	if took := time.Since(began); took > limit {
		t.Errorf("it took %v at a load of %v, the page says a minute", took, load)
	} else {
		t.Logf("%6v  in all", took.Round(10*time.Millisecond))
	}
	if len(blocks) < 3 || compared < 2 {
		t.Errorf("ran %d commands and compared %d, the page has more: is a fence misspelt?", len(blocks), compared)
	}
}

// TestSkill reads the skill for agents with the sidecar's own reader, as a client gets it over MCP, and runs its commands beside
// a service, with the binary of the release.
func TestSkill(t *testing.T) {
	o := built(t)
	base := o.fileName(o.Platforms[0])
	bin := filepath.Join(unpacked(t, filepath.Join(o.Out, base+".tar.gz")), base)
	skills := filepath.Join(o.Root, "docs", "agents")
	reader := command(t, filepath.Join(bin, program), "stdio", "--demo", "--skills", skills, "--log-level", "error")
	reader.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"skill://install-outrigger/SKILL.md"}}` + "\n")
	// Answers come in any order.
	conversation := strings.Split(strings.TrimSpace(run(t, reader)), "\n")
	slices.SortFunc(conversation, func(a, b string) int {
		return btoi(strings.Contains(a, `"id":2`)) - btoi(strings.Contains(b, `"id":2`))
	})
	var answer struct {
		Result struct{ Contents []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(conversation[len(conversation)-1]), &answer); err != nil || len(answer.Result.Contents) != 1 {
		t.Fatalf("%v\n%s", err, conversation)
	}

	service := filepath.Join(t.TempDir(), "toolservice")
	build := command(t, "go", "build", "-o", service, "./cmd/toolservice")
	build.Dir = filepath.Join(o.Root, "deploy")
	run(t, build)
	backend, main, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	served(t, command(t, service, "-listen", backend), "listening")
	folder := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(answer.Result.Contents[0].Text, -1)
	addresses := strings.NewReplacer("127.0.0.1:50051", backend, "127.0.0.1:8080", main, "127.0.0.1:9901", admin)
	before, last := "", ""
	for _, block := range blocks {
		text := addresses.Replace(block[1])
		if strings.HasPrefix(text, "export ") {
			before += text
			continue
		}
		cmd := command(t, "bash", "-ec", before+text)
		cmd.Dir = folder
		if strings.Contains(text, " serve ") {
			served(t, cmd, `"msg":"ready"`)
			continue
		}
		last = run(t, cmd)
		t.Logf("%s\n%s", text, last)
	}
	if len(blocks) < 7 || !strings.Contains(last, `"status":"success"`) || !strings.Contains(last, `"customer":"Clinic"`) {
		t.Errorf("%d commands, the last printed %s", len(blocks), last)
	}
}
