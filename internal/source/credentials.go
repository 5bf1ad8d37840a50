// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/outrigger-mcp/outrigger/internal/keys"
)

const (
	// maxCredentialsBytes bounds the file of credentials.
	maxCredentialsBytes = 64 << 10
	// maxCredentialLines bounds the servers in it.
	maxCredentialLines = 256
)

// hostCredentials are the values of the header Authorization by the servers ("https://host:443") that get them. They are secrets:
// nothing of them is put in an error.
type hostCredentials map[string]string

// hostCredentials reads the file, as it is now.
func (o FetchOptions) hostCredentials() (hostCredentials, error) {
	path := o.Config.GetFetchCredentialsFile()
	if path == "" {
		return nil, nil
	}
	raw, err := keys.ReadFile(path, maxCredentialsBytes)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	out, number := hostCredentials{}, 0
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\ufeff")) { // some editors begin a file with a byte order mark
		number++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := out.add(line); err != nil {
			return nil, fmt.Errorf("credentials: %s:%d: %w", path, number, err)
		}
	}
	return out, nil
}

// add reads a line. A secret may be in any place of a line that is wrong, so that errors repeat none.
func (h hostCredentials) add(line string) error {
	host, rest, _ := cutSpace(line)
	scheme, secret, isWhole := cutSpace(rest)
	server, err := url.Parse("https://" + host)
	if !isWhole || err != nil || server.Hostname() == "" || server.Host != host {
		return errors.New("want a line such as \"files.example.com bearer TOKEN\" or \"files.example.com:8443 basic USER:PASSWORD\"")
	}
	for _, c := range []byte(secret) {
		if c < ' ' || c == 0x7f {
			return errors.New("the secret has a control character")
		}
	}
	var value string
	switch strings.ToLower(scheme) {
	case "bearer":
		if strings.ContainsAny(secret, " \t") {
			return errors.New("the token contains a space")
		}
		value = "Bearer " + secret
	case "basic":
		if !strings.Contains(secret, ":") {
			return errors.New("want USER:PASSWORD after basic")
		}
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	default:
		return errors.New("the scheme must be bearer or basic")
	}
	key := origin(server)
	if _, isThere := h[key]; isThere {
		return errors.New("the host has credentials on an earlier line")
	}
	if len(h) == maxCredentialLines {
		return fmt.Errorf("more than %d hosts", maxCredentialLines)
	}
	h[key] = value
	return nil
}

// of is what a server gets, "" for nothing. A server on loopback may be without TLS.
func (h hostCredentials) of(u *url.URL) string {
	if u.Scheme == "http" && isSecure(u) {
		local := *u
		local.Scheme = "https"
		u = &local
	}
	return h[origin(u)]
}

// cutSpace cuts a text at the first white space.
func cutSpace(text string) (before, after string, isCut bool) {
	at := strings.IndexAny(text, " \t")
	if at < 0 {
		return text, "", false
	}
	return text[:at], strings.TrimLeft(text[at:], " \t"), true
}

// credentialsHint is what to do about a registry that wants to know who asks.
const credentialsHint = "`docker login` or `oras login` write them to config.json in $DOCKER_CONFIG or ~/.docker; helper programs (credsStore, credHelpers) are run only with --descriptors-docker-helpers" //nolint:gosec // words about credentials, not any

// maxConfigBytes bounds the file of credentials.
const maxConfigBytes = 1 << 20

// credentials are those of Docker's configuration file, as it is now; nil if there is none.
func (o FetchOptions) credentials() (auth.CredentialFunc, error) {
	path := o.dockerConfig()
	if path == "" {
		return nil, nil
	}
	raw, err := keys.ReadFile(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	known, err := credentials.NewMemoryStoreFromDockerConfig(raw)
	if err != nil {
		// Its cause may quote the file.
		return nil, fmt.Errorf("credentials: %s cannot be read as Docker's config.json", path)
	}
	var programs helpers
	if o.Config.GetFetchDockerHelpers() {
		if json.Unmarshal(raw, &programs) != nil {
			return nil, fmt.Errorf("credentials: credsStore or credHelpers of %s cannot be read", path)
		}
	}
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if host == "registry-1.docker.io" {
			host = "index.docker.io" // whose credentials the file has
		}
		if program := programs.of(host); program != "" {
			found, err := runHelper(ctx, program, helperServer(host))
			if err != nil || found != auth.EmptyCredential {
				return found, err
			}
		}
		return known.Get(ctx, host)
	}, nil
}

// dockerConfig is the path of Docker's configuration file, empty if there can be none.
func (o FetchOptions) dockerConfig() string {
	if o.DockerConfig != "" {
		return o.DockerConfig
	}
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker", "config.json")
}

// helpers are the programs that Docker's configuration file names for credentials.
type helpers struct {
	Store  string            `json:"credsStore"`
	ByHost map[string]string `json:"credHelpers"`
}

// of is the program for a registry, "" for none.
func (h helpers) of(host string) string {
	for _, name := range []string{host, helperServer(host)} {
		if program := h.ByHost[name]; program != "" {
			return program
		}
	}
	return h.Store
}

// helperServer is what a program is asked for. Docker Hub has kept the URL of an old version.
func helperServer(host string) string {
	if host == "index.docker.io" {
		return "https://index.docker.io/v1/"
	}
	return host
}

const (
	// maxHelperBytes bounds what a program writes. Tokens have a few kilobytes.
	maxHelperBytes = 64 << 10
	// helperGrace is how long the output of a program that has been killed may stay open.
	helperGrace = time.Second
	// isToken is the name of a user that has none: the secret is a token.
	isToken = "<token>"
	// noneFound is what programs write, with an exit code, if they have no credentials.
	noneFound = "credentials not found in native keychain"
)

// runHelper asks a program (docker-credential-NAME get) for the credentials of a registry, within the time of the fetch. Errors have
// nothing of what it wrote, which may be secret.
func runHelper(ctx context.Context, name, server string) (auth.Credential, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`).MatchString(name) {
		return auth.EmptyCredential, errors.New("credentials: the name of a helper program in credsStore or credHelpers is not valid")
	}
	program := "docker-credential-" + name
	cmd := exec.CommandContext(ctx, program, "get") //nolint:gosec // the operator's file names it, and a setting allows it
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(server), helperGrace
	out := &bounded{most: maxHelperBytes}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		if strings.Contains(out.text.String(), noneFound) {
			return auth.EmptyCredential, nil
		}
		if out.isOver {
			err = fmt.Errorf("it writes more than %d bytes", maxHelperBytes)
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return auth.EmptyCredential, fmt.Errorf("credentials: %s: %w", program, err)
	}
	var found struct {
		Username string `json:"Username"`
		Secret   string `json:"Secret"`
	}
	if json.Unmarshal(out.text.Bytes(), &found) != nil || found.Secret == "" {
		return auth.EmptyCredential, fmt.Errorf("credentials: %s did not write credentials", program)
	}
	if found.Username == isToken {
		return auth.Credential{RefreshToken: found.Secret}, nil
	}
	return auth.Credential{Username: found.Username, Password: found.Secret}, nil
}

// bounded is a buffer that refuses more than a number of bytes. It does not embed the buffer, which has other ways to be filled.
type bounded struct {
	text   bytes.Buffer
	most   int
	isOver bool
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		b.isOver = true
		return 0, io.ErrShortBuffer
	}
	return b.text.Write(p)
}
