// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
)

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

var helperNames = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// runHelper asks a program (docker-credential-NAME get) for the credentials of a registry, within the time of the fetch. Errors have
// nothing of what it wrote, which may be secret.
func runHelper(ctx context.Context, name, server string) (auth.Credential, error) {
	if !helperNames.MatchString(name) {
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
