// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

func namesIn(loaded *source.Loaded) []string {
	var out []string
	for _, f := range loaded.Files {
		out = append(out, f.GetName())
	}
	return out
}

func TestArtifactsAreSources(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		layers  []layer
		files   []string
		warning string
	}{
		{"one file", []layer{{name: "api.binpb", body: shop(t, "Open")}}, []string{"shop.proto"}, ""},
		{"one file of any name", []layer{{mediaType: "application/x-protobuf", body: shop(t, "Open")}}, []string{"shop.proto"}, ""},
		{"several files", []layer{
			{name: "b.pb", body: file(t, "b.proto")}, {name: "README.md", body: []byte("text")}, {name: "sets/a.desc", body: file(t, "a.proto")},
		}, []string{"b.proto", "a.proto"}, "README.md is not read"},
		{"two files with one in common", []layer{
			{name: "a.pb", body: shop(t, "Open", &descriptorpb.FileDescriptorProto{Name: new("a.proto")})}, {name: "b.pb", body: shop(t, "Open")},
		}, []string{"shop.proto", "a.proto"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := start(t)
			ref := g.push("v1", tc.layers...)
			from := g.source(ref, source.FetchOptions{}, source.Limits{})
			loaded, err := from.LoadUnless(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := namesIn(loaded); !slices.Equal(got, tc.files) {
				t.Errorf("files %q, want %q", got, tc.files)
			}
			if want := "OCI artifact " + strings.TrimPrefix(ref, "oci://"); loaded.Source != want {
				t.Errorf("source %q, want %q", loaded.Source, want)
			}
			if got := fmt.Sprint(loaded.Warnings); !strings.Contains(got, tc.warning) || (len(loaded.Warnings) == 0) != (tc.warning == "") {
				t.Errorf("warnings %s, want %q", got, tc.warning)
			}
			before := g.requests()
			g.push("v1", layer{name: "api.binpb", body: shop(t, "Close")}) // the tag is moved
			pushed := g.requests()
			if again, err := from.LoadUnless(t.Context(), loaded.Revision); again != nil || err != nil || g.requests() != pushed || pushed == before {
				t.Errorf("what is pinned was asked for again: %v, error %v", again, err)
			}
			if again, err := from.Load(t.Context()); err != nil || !slices.Equal(namesIn(again), tc.files) {
				t.Errorf("after the tag was moved: %v, error %v", again, err)
			}
		})
	}
}

// TestArtifactsThatCannotBeUsed, and registries that lie.
func TestArtifactsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	good := layer{name: "api.binpb", body: shop(t, "Open")}
	tampered := func(in string, with func(w http.ResponseWriter, body []byte)) func(*rig) {
		return func(g *rig) {
			g.interpose(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, in) {
					return false
				}
				with(w, shop(g.t, "Open"))
				return true
			})
		}
	}
	manifest := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}
	for _, tc := range []struct {
		name   string
		layers []layer
		limits source.Limits
		change func(g *rig)
		want   string
	}{
		{"no layers", nil, source.Limits{}, nil, "it has no layers"},
		{"no descriptor set among several", []layer{{name: "a.txt", body: []byte("a")}, {name: "b.txt", body: []byte("b")}}, source.Limits{}, nil, "none of its layers is a descriptor set"},
		{"a folder", []layer{{name: "sets", body: []byte("tar"), annotations: map[string]string{"io.deis.oras.content.unpack": "true"}}}, source.Limits{}, nil, "its layer sets is a folder"},
		{"what is no descriptor set", []layer{{name: "a.pb", body: []byte("{}")}}, source.Limits{}, nil, "decode: a.pb: "},
		{"copies that differ", []layer{{name: "a.pb", body: shop(t, "Open")}, {name: "b.pb", body: shop(t, "Close")}}, source.Limits{}, nil, "a.pb and b.pb have different copies of shop.proto"},
		{"too large", []layer{good}, source.Limits{MaxBytes: 10}, nil, "more than 10 bytes, the limit for one source (limits.max_descriptor_bytes)"},
		{"too many layers", slices.Repeat([]layer{good}, 257), source.Limits{}, nil, "more than 256 layers"},
		{"another manifest", []layer{good}, source.Limits{}, tampered("/manifests/", func(w http.ResponseWriter, _ []byte) {
			manifest(w, []byte(`{"schemaVersion":2,"layers":[]}`))
		}), "digest"},
		{"a manifest that is too large", []layer{good}, source.Limits{}, tampered("/manifests/", func(w http.ResponseWriter, _ []byte) {
			manifest(w, make([]byte, 5<<20))
		}), "m"},
		{"another layer of the same size", []layer{good}, source.Limits{}, tampered("/blobs/", func(w http.ResponseWriter, body []byte) {
			body[len(body)-1] ^= 1
			_, _ = w.Write(body)
		}), "layer api.binpb: mismatched digest"},
		{"another layer", []layer{good}, source.Limits{}, tampered("/blobs/", func(w http.ResponseWriter, body []byte) { _, _ = w.Write(append(body, 0)) }), "layer api.binpb: "},
		{"a layer that is gone", []layer{good}, source.Limits{}, tampered("/blobs/", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) }), "layer api.binpb: "},
		{"an error", []layer{good}, source.Limits{}, tampered("/manifests/", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }), "the registry answered 500"},
		{"forbidden", []layer{good}, source.Limits{}, tampered("/manifests/", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusForbidden) }), "the registry answered 403 Forbidden; `docker login`"},
		{"a layer that is elsewhere, without TLS", []layer{good}, source.Limits{}, tampered("/blobs/", func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("Location", "http://192.0.2.1/blob?secret")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}), "http://192.0.2.1/blob: must be https"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := start(t)
			ref := g.push("v1", tc.layers...)
			if tc.change != nil {
				tc.change(g)
			}
			loaded, err := g.source(ref, source.FetchOptions{}, tc.limits).Load(t.Context())
			var failed *source.FetchError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, error %v, want %q", loaded, err, tc.want)
			}
		})
	}
	t.Run("an index", func(t *testing.T) {
		t.Parallel()
		g := start(t)
		if _, err := g.source(g.index(), source.FetchOptions{}, source.Limits{}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "it is an index of several artifacts") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		g := start(t)
		ref := "oci://" + g.host + "/team/shop@sha256:" + strings.Repeat("0", 64)
		if _, err := g.source(ref, source.FetchOptions{}, source.Limits{}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("error %v", err)
		}
	})
}

// docker writes Docker's configuration file.
func docker(t *testing.T, content any) source.FetchOptions {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return source.FetchOptions{DockerConfig: path}
}

func auths(host, user, password string) map[string]any {
	return map[string]any{"auths": map[string]any{host: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}}}
}

// unlessAnn asks all others for a password.
func unlessAnn(w http.ResponseWriter, r *http.Request) bool {
	if user, password, _ := r.BasicAuth(); user == "ann" && password == "secret" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// TestCredentialsOfDocker: basic authentication, and tokens of a service that the registry names.
func TestCredentialsOfDocker(t *testing.T) {
	t.Parallel()
	g := start(t)
	ref := g.push("v1", layer{name: "api.binpb", body: shop(t, "Open")})
	g.interpose(unlessAnn)
	for name, tc := range map[string]struct {
		options source.FetchOptions
		want    string
	}{
		"right":               {docker(t, auths(g.host, "ann", "secret")), ""},
		"wrong":               {docker(t, auths(g.host, "ann", "wrong")), "the registry answered 401 Unauthorized; `docker login`"},
		"of another registry": {docker(t, auths("example.com", "ann", "secret")), "the registry requires credentials; `docker login`"},
		"none":                {source.FetchOptions{}, "the registry requires credentials"},
		"a helper":            {docker(t, map[string]any{"credsStore": "secretservice"}), "helper programs (credsStore, credHelpers) are run only with --descriptors-docker-helpers"},
		"no JSON":             {docker(t, "secret"), "cannot be read as Docker's config.json"},
	} {
		_, err := g.source(ref, tc.options, source.Limits{}).Load(t.Context())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") && name != "a helper" {
			t.Errorf("%s: the error has a secret: %v", name, err)
		}
	}
}

func TestTokensOfARegistry(t *testing.T) {
	t.Parallel()
	g := start(t)
	ref := g.push("v1", layer{name: "api.binpb", body: shop(t, "Open")})
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" || r.URL.Query().Get("scope") != "repository:team/shop:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"token":"good"}`))
	}))
	t.Cleanup(tokens.Close)
	realm := tokens.URL
	g.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer good" {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"here\"", realm))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	options := docker(t, auths(g.host, "ann", "secret"))
	if _, err := g.source(ref, options, source.Limits{}).Load(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
	realm = "http://192.0.2.1/token"
	if _, err := g.source(ref, options, source.Limits{}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "must be https") {
		t.Errorf("a token service without TLS: error %v", err)
	}
}

// TestAHelperOfDocker has the binary ask one, if it may.
func TestAHelperOfDocker(t *testing.T) {
	t.Parallel()
	g := start(t)
	ref := g.push("v1", layer{name: "api.binpb", body: shop(t, "Open")})
	g.interpose(unlessAnn)
	dir := filepath.Dir(docker(t, map[string]any{"credHelpers": map[string]string{g.host: "outrigger-test"}}).DockerConfig)
	script := "#!/bin/sh\n[ \"$1\" = get ] && [ \"$(cat)\" = " + g.host + " ] && echo '{\"Username\":\"ann\",\"Secret\":\"secret\"}'\n"
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-outrigger-test"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ flag, want string }{{"--descriptors-docker-helpers=true", "shop.open"}, {"--descriptors-docker-helpers=false", "the registry requires credentials"}} {
		cmd := exec.CommandContext(t.Context(), built.binary, "tools", "--descriptors", ref, tc.flag)
		cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+dir, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if (err == nil) != (tc.want == "shop.open") || !strings.Contains(string(out), tc.want) || strings.Contains(string(out), "secret") {
			t.Errorf("%s: error %v:\n%s", tc.flag, err, out)
		}
	}
}

// TestAStoreBehindARegistry, on another port of the same host: it has a certificate of a private CA, and gets no credentials.
func TestAStoreBehindARegistry(t *testing.T) {
	t.Parallel()
	g := start(t)
	body := shop(t, "Open")
	ref := g.push("v1", layer{name: "api.binpb", body: body})
	ca := tlstest.NewAuthority(t)
	var authorization []string
	store := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = append(authorization, r.Header.Get("Authorization")+r.Header.Get("Referer"))
		_, _ = w.Write(body)
	}))
	store.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}}).Certificate(t)}}
	store.StartTLS()
	t.Cleanup(store.Close)
	g.interpose(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, store.URL+"/blob?signature", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	options := docker(t, auths(g.host, "ann", "secret"))
	if _, err := g.source(ref, options, source.Limits{}).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "signature") {
		t.Errorf("without the CA: error %v", err)
	}
	options.Config = &configv1.Catalog{FetchCaFile: ca.File}
	if _, err := g.source(ref, options, source.Limits{}).Load(t.Context()); err != nil {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(authorization, []string{""}) {
		t.Errorf("the store was sent %q", authorization)
	}
}

// TestTheBinary lists the tools of an artifact, and examines one that is not there.
func TestTheBinary(t *testing.T) {
	t.Parallel()
	g := start(t)
	ref := g.push("v1", layer{name: "api.binpb", body: shop(t, "Open")})
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), built.binary, args...)
		cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("tools", "--descriptors", ref); err != nil || !strings.Contains(out, "shop.open") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := run("diff", ref, ref); err != nil || out != "no differences\n" {
		t.Errorf("diff: error %v:\n%s", err, out)
	}
	lock := filepath.Join(t.TempDir(), "catalog.lock.json")
	for _, args := range [][]string{{"lock", "update"}, {"lock", "check"}} {
		if out, err := run(append(args, "--descriptors", ref, "--catalog-lock", lock)...); err != nil || !strings.Contains(out, "1 tools") {
			t.Errorf("%v: error %v:\n%s", args, err, out)
		}
	}
	gone := "oci://" + g.host + "/team/shop@sha256:" + strings.Repeat("0", 64)
	if out, err := run("tools", "--descriptors", gone); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := run("tools", "--descriptors", "oci://"+g.host+"/team/shop:v1"); err == nil || !strings.Contains(out, "oras resolve "+g.host+"/team/shop:v1") {
		t.Errorf("error %v:\n%s", err, out)
	}
}
