// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// readCallers reads the callers file. Entries for processes are refused unless they are known by them: such a caller would never be let in.
func readCallers(path string, knowsProcesses bool) ([]identity.Entry, error) {
	file, err := config.LoadCallers(path)
	if err != nil {
		return nil, err
	}
	entries := make([]identity.Entry, 0, len(file.GetCallers()))
	for _, c := range file.GetCallers() {
		e := identity.Entry{
			Grant: identity.Grant{
				Name: c.GetName(), Tools: c.GetTools(), Resources: c.GetResources(), Prompts: c.GetPrompts(),
				Publish: c.GetPublish(), Subscribe: c.GetSubscribe(), Trust: identity.TrustOf(c.GetTrust()),
			},
			URIs: c.GetCertificateUris(), UIDs: numbers(c.GetUnixUids()), GIDs: numbers(c.GetUnixGids()),
		}
		if len(e.UIDs)+len(e.GIDs) > 0 && !knowsProcesses {
			return nil, fmt.Errorf("%s: %s: unix_uids and unix_gids need a Unix socket and --experimental unix-socket", path, c.GetName())
		}
		if e.Tokens, err = digests(c.GetTokenSha256()); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, c.GetName(), err)
		}
		for _, subject := range c.GetOauth() {
			e.Subjects = append(e.Subjects, identity.Subject{Issuer: subject.GetIssuer(), Name: subject.GetSubject()})
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// readOperators reads the operators file. The groups of an entry are its roles, and the callers as which it may call.
func readOperators(path string) ([]identity.Entry, error) {
	file, err := config.LoadOperators(path)
	if err != nil {
		return nil, err
	}
	entries := make([]identity.Entry, 0, len(file.GetOperators()))
	for _, o := range file.GetOperators() {
		e := identity.Entry{Grant: identity.Grant{Name: o.GetName()}, URIs: o.GetCertificateUris(), Groups: slices.Concat(
			rolesOf(o.GetRole()), marked(asCaller, o.GetCallsAs()), marked(ofGroup, o.GetGroups()), marked(ofClass, o.GetClasses()),
		)}
		if e.Tokens, err = digests(o.GetTokenSha256()); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, o.GetName(), err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// rolesOf are the groups of an operator: who may operate may read.
func rolesOf(role string) []string {
	if role == string(admin.RoleOperate) {
		return []string{string(admin.RoleRead), role}
	}
	return []string{role}
}

// In front of the groups of an operator's identity that are no roles.
const (
	asCaller = "calls_as:" // an entry of the callers file as which it may call tools
	ofGroup  = "group:"    // a group that rules with the effect "approve" name
	ofClass  = "class:"    // a class of fields that it sees
)

// marked puts a mark in front of names.
func marked(mark string, names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, mark+name)
	}
	return out
}

// withMark returns the names behind a mark.
func withMark(who *identity.Identity, mark string) []string {
	var out []string
	for _, group := range who.Facts().Groups {
		if name, ok := strings.CutPrefix(group, mark); ok {
			out = append(out, name)
		}
	}
	return out
}

// callsAs are the names of the entries as which an operator may call tools, as the operators file has them.
func callsAs(who *identity.Identity) []string { return withMark(who, asCaller) }

// localOperator is the name of the operator where operators do not authenticate.
const localOperator = "local"

// Approver returns the operator of a request of the admin listener as one that may decide about calls.
func (f *Front) Approver(ctx context.Context) approval.Approver {
	if f.operators.auth == nil {
		return approval.Approver{Name: localOperator}
	}
	return approverOf(identity.FromContext(ctx))
}

// ApproverNamed returns an operator as it is now, by its name; false if there is none that may operate.
func (f *Front) ApproverNamed(name string) (approval.Approver, bool) {
	if f.operators.auth == nil {
		return approval.Approver{Name: localOperator}, name == localOperator
	}
	who := f.operators.book.Named(name)
	if who == nil || !slices.Contains(who.Facts().Groups, string(admin.RoleOperate)) {
		return approval.Approver{}, false // one who may only read decides nothing
	}
	return approverOf(who), true
}

// CallerNamed returns a caller as it is now, by the name of its entry in the callers file; nil if there is none.
func (f *Front) CallerNamed(name string) *identity.Identity { return f.authn.named(name) }

// CallerAgain returns a caller of OAuth as it is now, by what its token said; see [identity.Verifier.Again].
func (f *Front) CallerAgain(of identity.Facts, standing []byte) *identity.Identity {
	if f.authn.opts.Authenticator != nil {
		return nil
	}
	return f.authn.oauth.Again(of, standing)
}

// approverOf is an operator as an approver.
func approverOf(who *identity.Identity) approval.Approver {
	return approval.Approver{Name: who.Name(), Groups: withMark(who, ofGroup), CallsAs: callsAs(who), Classes: withMark(who, ofClass)}
}

// numbers are those of users or groups, which the rules of the file bound.
func numbers(of []int64) []uint32 {
	var out []uint32
	for _, n := range of {
		out = append(out, uint32(n))
	}
	return out
}

// digests are SHA-256 digests from hex digits.
func digests(texts []string) ([]identity.Digest, error) {
	var out []identity.Digest
	for _, text := range texts {
		var digest identity.Digest
		if n, err := hex.Decode(digest[:], []byte(text)); err != nil || n != len(digest) {
			return nil, errors.New("a token_sha256 is not a SHA-256 digest")
		}
		out = append(out, digest)
	}
	return out, nil
}

// Check reads the callers file and the certificates before a port opens, so
// that their errors are reported together with all others.
func Check(cfg *configv1.Config, report func(path, message string)) {
	listeners := cfg.GetListeners()
	names := func(field, path string, read func(string) ([]identity.Entry, error)) {
		if path == "" {
			return
		}
		var faults *config.Error
		switch _, err := read(path); {
		case errors.As(err, &faults):
			report(field, strings.ReplaceAll(faults.Error(), "\n", "; "))
		case err != nil:
			report(field, err.Error())
		}
	}
	certificates := func(field string, files keys.ServerFiles) {
		if files.GetCertFile() != "" && files.GetKeyFile() != "" {
			if _, err := keys.NewServer(files); err != nil {
				report(field, err.Error())
			}
		}
	}
	names("access.tokens_file", cfg.GetAccess().GetTokensFile(), func(path string) ([]identity.Entry, error) {
		return readCallers(path, config.HasExperiment(cfg, config.UnixSocket))
	})
	names("listeners.admin_tokens_file", listeners.GetAdminTokensFile(), readOperators)
	certificates("listeners.admin_tls", listeners.GetAdminTls())
	identity.CheckOAuth(cfg.GetAccess().GetOauth(), report)
	certificates("listeners.tls", listeners.GetTls())
}
