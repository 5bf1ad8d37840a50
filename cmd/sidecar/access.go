// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/access"
	"github.com/outrigger-mcp/outrigger/bridge/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/bridge/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/bridge/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/httpauth"
	"github.com/outrigger-mcp/outrigger/internal/metrics"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// door is who may come in at the main listener: what is read of the files of
// callers and certificates.
type door struct {
	auth *httpauth.Door
	// book is nil where no file names callers, tls where the listener is plain.
	book *access.Book
	tls  *tlsfiles.Server
	// grants is what of the book is about no tool.
	grants grants
	// edges answer those who are turned away.
	mcp *mcphttp.Handler
	rpc *rpchttp.Handler
	api *connectapi.Service
}

// openDoor reads who may come in.
func (a *app) openDoor() error {
	d := &door{}
	a.door = d
	a.watchDoor() // before anything is read, so that no change slips between
	if files := a.cfg.GetListeners().GetTls(); files != nil {
		var err error
		if d.tls, err = newListenerTLS(files); err != nil {
			return fmt.Errorf("TLS on the listener: %w", err)
		}
	}
	options := httpauth.Options{Subject: subjectHeader(a.cfg), Refuse: d.refuse, Log: a.log.Named("access")}
	if d.tls != nil && d.tls.AsksCallers() {
		options.Who, options.Names = access.Certificates{}, d.tls.Names
	}
	if path := a.cfg.GetAccess().GetTokensFile(); path != "" {
		entries, err := readCallers(path)
		if err != nil {
			return err
		}
		d.book = access.NewBook(entries)
		options.Who = d.book
		a.log.Info("caller authentication enabled", zap.Int("callers", d.book.Len()))
	}
	d.auth = httpauth.New(options)
	return nil
}

func newListenerTLS(files *configv1.ListenerTls) (*tlsfiles.Server, error) {
	return tlsfiles.NewServer(tlsfiles.ServerOptions{
		CertFile: files.GetCertFile(), KeyFile: files.GetKeyFile(),
		ClientCAFile: files.GetClientCaFile(), ClientURIs: files.GetClientUris(),
	})
}

// noSubject is the setting that tells the backend nothing.
const noSubject = "off"

// subjectHeader is the header in which the backend is told who calls; empty where
// it is told nothing. A caller's own header of the default name goes no further
// all the same, because that is not in the list of headers that pass.
func subjectHeader(cfg *configv1.Config) string {
	if name := cfg.GetAccess().GetSubjectHeader(); name != noSubject {
		return name
	}
	return ""
}

// inboundMetadata are the headers that go on to the backend.
func inboundMetadata(cfg *configv1.Config) []string {
	names := slices.Clone(cfg.GetBackend().GetMetadata().GetInbound())
	if subject := subjectHeader(cfg); subject != "" && !slices.Contains(names, subject) {
		names = append(names, subject)
	}
	return names
}

// refuse rejects an unauthenticated request in the protocol of its edge.
func (d *door) refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	switch {
	case r.URL.Path == rpchttp.Path:
		d.rpc.Refuse(w, r, err)
	case r.URL.Path == mcphttp.Path, slices.Contains(mcphttp.RetiredPaths(), r.URL.Path):
		d.mcp.Refuse(w, r, err)
	default:
		d.api.Refuse(w, r, err)
	}
}

// readCallers reads the callers file.
func readCallers(path string) ([]access.Entry, error) {
	file, err := config.LoadCallers(path)
	if err != nil {
		return nil, err
	}
	entries := make([]access.Entry, 0, len(file.GetCallers()))
	for _, c := range file.GetCallers() {
		e := access.Entry{
			Grant: access.Grant{
				Name: c.GetName(), Tools: c.GetTools(), Resources: c.GetResources(), Prompts: c.GetPrompts(),
				Trust: trustOf(c.GetTrust()),
			},
			URIs: c.GetCertificateUris(),
		}
		for _, text := range c.GetTokenSha256() {
			var digest access.Digest
			if n, err := hex.Decode(digest[:], []byte(text)); err != nil || n != len(digest) {
				return nil, fmt.Errorf("%s: a digest of %s is no SHA-256", path, c.GetName())
			}
			e.Tokens = append(e.Tokens, digest)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func trustOf(said string) access.Trust {
	switch said {
	case "trusted":
		return access.Trusted
	case "untrusted":
		return access.Untrusted
	}
	return access.Unsaid
}

// checkDoor reads the files of callers and certificates before a port opens, so
// that what is wrong with them is reported with everything else.
func checkDoor(cfg *configv1.Config, report func(path, message string)) {
	if subject := subjectHeader(cfg); subject != "" {
		if _, err := bridge.NewMetadataRules([]string{subject}, nil); err != nil {
			report("access.subject_header", err.Error())
		}
	}
	if path := cfg.GetAccess().GetTokensFile(); path != "" {
		var faults *config.Error
		switch _, err := readCallers(path); {
		case errors.As(err, &faults):
			report("access.tokens_file", strings.ReplaceAll(faults.Error(), "\n", "; "))
		case err != nil:
			report("access.tokens_file", err.Error())
		}
	}
	if files := cfg.GetListeners().GetTls(); files.GetCertFile() != "" && files.GetKeyFile() != "" {
		if _, err := newListenerTLS(files); err != nil {
			report("listeners.tls", err.Error())
		}
	}
}

// watchDoor has the files of callers and certificates read again when they
// change. Files that cannot be used leave the last good ones in use.
func (a *app) watchDoor() {
	if path := a.cfg.GetAccess().GetTokensFile(); path != "" {
		a.watcher.Add("callers", func(context.Context) reload.Outcome { return a.rereadCallers(path) }, path)
	}
	if tls := a.cfg.GetListeners().GetTls(); tls != nil {
		files := []string{tls.GetCertFile(), tls.GetKeyFile()}
		if authorities := tls.GetClientCaFile(); authorities != "" {
			files = append(files, authorities)
		}
		a.watcher.Add("listener_tls", func(context.Context) reload.Outcome { return a.rereadTLS("listener", a.door.tls.Reload) }, files...)
	}
	if a.client != nil && len(a.client.TLSFiles()) > 0 {
		a.watcher.Add("backend_tls", func(context.Context) reload.Outcome { return a.rereadTLS("backend", a.client.ReloadTLS) }, a.client.TLSFiles()...)
		// They were read before they were watched.
		if err := a.client.ReloadTLS(); err != nil {
			a.log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", "backend"), zap.Error(err))
		}
	}
}

// rereadCallers reads the callers file again.
func (a *app) rereadCallers(path string) reload.Outcome {
	entries, err := readCallers(path)
	if err != nil {
		a.log.Error("callers file reload failed; keeping the last good one", zap.Error(err))
		return reload.Refused
	}
	a.log.Info("callers file reloaded", zap.Int("callers", len(entries)), zap.Int("ended", a.door.book.Replace(entries)))
	if now := a.live.Current(); now != nil {
		a.checkGrants(now)
	}
	return reload.Applied
}

// rereadTLS reads the certificates of one side again.
func (a *app) rereadTLS(side string, read func() error) reload.Outcome {
	if err := read(); err != nil {
		a.log.Error("certificate reload failed; keeping the last good certificates", zap.String("side", side), zap.Error(err))
		return reload.Refused
	}
	a.log.Info("certificates reloaded", zap.String("side", side))
	return reload.Applied
}

// badCertificate is the reason of a handshake that failed because of the name in the
// caller's certificate.
const badCertificate = "certificate"

// doorMetrics are who was not let in, for a scrape.
func (a *app) doorMetrics() *metrics.Door {
	out := &metrics.Door{Refused: func(reason string) uint64 {
		if reason == badCertificate {
			return a.door.tls.Refused()
		}
		return a.door.auth.Refused(access.Reason(reason))
	}}
	for _, why := range access.Reasons() {
		out.Reasons = append(out.Reasons, string(why))
	}
	if a.door.tls != nil {
		out.Reasons = append(out.Reasons, badCertificate)
		out.Expires = a.door.tls.Expires
	}
	return out
}
