// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// callerName is what a name may be; config/v1.Caller says the same.
var callerName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@:/+-]{0,126}[A-Za-z0-9])?$`)

// tokenBytes is the length of a token before it is written down: as many as its
// digest has.
const tokenBytes = 32

func newTokenCommand(env environment) *cobra.Command {
	var role, file string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Generate a bearer token and its entry for the --tokens or --admin-tokens file",
		Long: `Token generates a random bearer token. The token goes to standard error and is not
stored anywhere; hand it to the caller. With --token-file it goes to a new file that
only you can read instead. Its entry, which holds only the digest,
goes to standard output; append it to the --tokens file. The entry allows every
tool: restrict it before you hand the token out.

With --operator the entry is for the --admin-tokens file: an operator of the admin
listener who may "read", or "operate" (also drain, trust, registrations).`,
		Example: `  echo 'callers:' > callers.yaml
  sidecar token planner >> callers.yaml
  sidecar token reviewer --token-file reviewer.token >> callers.yaml

  echo 'operators:' > operators.yaml
  sidecar token drainer --operator operate >> operators.yaml`,
		Args: between(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !callerName.MatchString(args[0]) {
				return usageError("NAME: want 1 to 128 letters, digits and ._@:/+- that begin and end with a letter or digit")
			}
			rights := `tools: ["*"]`
			switch role {
			case "":
			case string(admin.RoleRead), string(admin.RoleOperate):
				rights = "role: " + role
			default:
				return usageError(fmt.Sprintf("--operator: want read or operate, not %q", role))
			}
			raw := make([]byte, tokenBytes)
			if _, err := rand.Read(raw); err != nil {
				return fmt.Errorf("generate a token: %w", err)
			}
			token := base64.RawURLEncoding.EncodeToString(raw)
			digest := sha256.Sum256([]byte(token))
			if file != "" {
				if err := writeToken(file, token); err != nil {
					return err
				}
				fmt.Fprintf(env.stderr, "token of %s: in %s\n", args[0], file)
			} else {
				fmt.Fprintf(env.stderr, "token of %s: %s\n", args[0], token)
			}
			_, err := fmt.Fprintf(env.stdout, "  - name: %s\n    token_sha256: [%q]\n    %s\n", args[0], hex.EncodeToString(digest[:]), rights)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "operator", "", "make an entry for --admin-tokens with this role: read or operate")
	cmd.Flags().StringVar(&file, "token-file", "", "write the token to this new file, which only you can read, and not to standard error")
	return cmd
}

// writeToken writes a token to a new file. What is there is kept: it may be a token in use.
func writeToken(path, token string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usageError(fmt.Sprintf("--token-file: %s is there already; remove it if its token is not in use, or name another file", path))
	}
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	_, err = file.WriteString(token + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--token-file: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
