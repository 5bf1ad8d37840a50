// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// CardPath is the path of the server card (draft SEP-2127, recommended location).
const CardPath = Path + "/server-card"

// Card serves a public document about the server, for clients that have not connected yet. It names no tools: those depend on the
// caller.
type Card struct {
	// Resource is the URL of the endpoint; empty for that by which the card is asked for.
	Resource string
	// Server says how the sidecar introduces itself, and Versions which revisions it serves.
	Server   func() bridge.ServerInfo
	Versions []string

	// last is the card that was served last. Everyone may ask for it, so that asking again must cost nearly nothing.
	last atomic.Pointer[cardBody]
}

// cardBody is a card in its form on the wire, with all that it was made of.
type cardBody struct {
	address string
	info    bridge.ServerInfo
	text    []byte
	etag    string
}

const (
	cardSchema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	cardType   = "application/mcp-server-card+json"
	// Limits of the schema, in characters.
	maxCardName    = 200
	maxCardText    = 100
	maxCardVersion = 255
	// maxHost bounds the host that a card repeats (RFC 1035, and a port).
	maxHost = 260
)

// card is the document.
type card struct {
	Schema      string       `json:"$schema"`
	Name        string       `json:"name"`
	Version     string       `json:"version"`
	Description string       `json:"description"`
	Title       string       `json:"title,omitempty"`
	Remotes     []cardRemote `json:"remotes"`
}

type cardRemote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Versions []string `json:"supportedProtocolVersions"`
}

// ServeHTTP implements [http.Handler].
func (c *Card) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	identity.ServePublic(w, r, "a server card", c.serve)
}

// serve writes the card, or that the client has it.
func (c *Card) serve(w http.ResponseWriter, r *http.Request) {
	body, err := c.body(c.address(r), c.Server())
	if err != nil { // texts always have a JSON form
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	head := w.Header()
	head.Set("Content-Type", cardType)
	head.Set("Cache-Control", "public, max-age=3600")
	head.Set("ETag", body.etag)
	if c.Resource == "" {
		head.Set("Vary", "Host")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body.text))
}

// address is the URL of the endpoint. Where none is configured, the host is that of the request, which the guard has checked.
func (c *Card) address(r *http.Request) string {
	if c.Resource != "" {
		return c.Resource
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + clip(r.Host, maxHost) + Path
}

// body is the card, made anew only if it is another than the last one.
func (c *Card) body(address string, info bridge.ServerInfo) (*cardBody, error) {
	if last := c.last.Load(); last != nil && last.address == address && last.info == info {
		return last, nil
	}
	text, err := json.Marshal(card{
		Schema: cardSchema, Name: cardName(info.Name, address), Version: clip(cmp.Or(info.Version, "0"), maxCardVersion),
		Description: clip("Tools of "+cmp.Or(info.Title, info.Name), maxCardText), Title: clip(info.Title, maxCardText),
		Remotes: []cardRemote{{Type: "streamable-http", URL: address, Versions: c.Versions}},
	})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	made := &cardBody{address, info, text, `"` + hex.EncodeToString(sum[:16]) + `"`}
	c.last.Store(made)
	return made, nil
}

// cardName is the name of a server with a namespace: its own, else the host of its URL in reverse-DNS form.
func cardName(name, address string) string {
	space, own, isSpaced := strings.Cut(name, "/")
	if !isSpaced {
		space, own = namespace(address), name
	}
	keep := func(text string, others string) string {
		return strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(others, r)) {
				return r
			}
			return '-'
		}, text)
	}
	own = clip(keep(own, "._-"), maxCardName/2)
	return cmp.Or(clip(keep(space, ".-"), maxCardName-len(own)-1), "localhost") + "/" + cmp.Or(own, "server")
}

func namespace(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "localhost"
	}
	host := strings.Trim(u.Hostname(), ".")
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return "localhost"
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}

// clip shortens a text to a number of characters.
func clip(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}

// NoCard returns the handler for [CardPath] where there is no card.
func (h *Handler) NoCard() http.Handler {
	return h.notHere(content.NotOn(errmap.MethodNotFound, "", "the server card", "server-card"))
}
