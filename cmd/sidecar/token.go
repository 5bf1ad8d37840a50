// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
)

// callerName is what a name may be; config/v1.Caller says the same.
var callerName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@:/+-]{0,126}[A-Za-z0-9])?$`)

// tokenBytes is the length of a token before it is written down: as many as its
// digest has.
const tokenBytes = 32

func newTokenCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "token NAME",
		Short: "Generate a bearer token and its entry for the --tokens file",
		Long: `Token generates a random bearer token. The token goes to standard error and is not
stored anywhere; hand it to the caller. Its entry, which holds only the digest,
goes to standard output; append it to the --tokens file. The entry allows every
tool: restrict it before you hand the token out.`,
		Example: `  echo 'callers:' > callers.yaml
  sidecar token planner >> callers.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !callerName.MatchString(args[0]) {
				return usageError("NAME: want 1 to 128 letters, digits and ._@:/+- that begin and end with a letter or digit")
			}
			raw := make([]byte, tokenBytes)
			if _, err := rand.Read(raw); err != nil {
				return fmt.Errorf("generate a token: %w", err)
			}
			token := base64.RawURLEncoding.EncodeToString(raw)
			digest := sha256.Sum256([]byte(token))
			fmt.Fprintf(env.stderr, "token of %s: %s\n", args[0], token)
			_, err := fmt.Fprintf(env.stdout, "  - name: %s\n    token_sha256: [%q]\n    tools: [\"*\"]\n", args[0], hex.EncodeToString(digest[:]))
			return err
		},
	}
}
