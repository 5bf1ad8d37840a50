// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// credentialsHint is what to do about a registry that wants to know who asks.
const credentialsHint = "`docker login` or `oras login` write them to config.json in $DOCKER_CONFIG or ~/.docker; helper programs (credsStore, credHelpers) are run only with --descriptors-docker-helpers" //nolint:gosec // words about credentials, not any

// maxConfigBytes bounds the file of credentials.
const maxConfigBytes = 1 << 20

// credentials are those of Docker's configuration file, as it is now; nil if there is none.
func (o Options) credentials() (auth.CredentialFunc, error) {
	path := o.dockerConfig()
	if path == "" {
		return nil, nil
	}
	raw, err := tlsfiles.Read(path, maxConfigBytes)
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
	if o.RunsHelpers {
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
func (o Options) dockerConfig() string {
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
