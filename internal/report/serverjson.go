// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// serverJSONSchema is the URL of the JSON Schema of the format.
const serverJSONSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// Limits of the format, in characters.
const (
	maxServerName        = 200
	maxServerDescription = 100
	maxServerVersion     = 255
)

// ServerJSON is a server.json.
type ServerJSON struct {
	Schema      string          `json:"$schema"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Version     string          `json:"version"`
	Packages    []ServerPackage `json:"packages,omitempty"`
	Remotes     []ServerRemote  `json:"remotes,omitempty"`
	Meta        ServerMeta      `json:"_meta"`
}

// ServerNameLabel is the label by which the official registry knows that an image is of the server that names it. Its value is the name
// of the server.
const ServerNameLabel = "io.modelcontextprotocol.server.name"

// ServerPackage is something that clients can run the server from.
type ServerPackage struct {
	RegistryType string          `json:"registryType"`
	Identifier   string          `json:"identifier"`
	Transport    ServerTransport `json:"transport"`
}

// ServerTransport is how clients talk to a package.
type ServerTransport struct {
	Type string `json:"type"`
}

// ServerRemote is an endpoint of the server.
type ServerRemote struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// ServerMeta is the metadata of the document.
type ServerMeta struct {
	Publisher Publisher `json:"io.modelcontextprotocol.registry/publisher-provided"`
}

// Publisher is what the publisher adds. The registry keeps it as it is, up to 4,096 bytes.
type Publisher struct {
	Catalog PublishedCatalog `json:"dev.outrigger/catalog"`
}

// PublishedCatalog identifies the tools of the server.
type PublishedCatalog struct {
	// Digest is the digest of all tools, 64 lowercase hex digits.
	Digest string `json:"digest"`
	// Tools is their number.
	Tools int `json:"tools"`
}

// ServerJSONOptions are the contents of a document.
type ServerJSONOptions struct {
	// Name is in reverse-DNS form, "com.example/shop".
	Name, Description, Version string
	// URLs are the endpoints for streamable HTTP.
	URLs []string
	// Image is a container image that serves the tools over standard input and output by itself, "host/repository@sha256:…";
	// empty for none.
	Image   string
	Catalog PublishedCatalog
}

// ServerJSONFault is a value that the format does not allow.
type ServerJSONFault struct {
	// Field is the field of [ServerJSONOptions], as flags spell it: name, description, version, url or oci.
	Field string
	Text  string
}

// NewServerJSON makes a document. The faults are all that is wrong; the document is only complete if there are none.
func NewServerJSON(o ServerJSONOptions) (ServerJSON, []ServerJSONFault) {
	var faults []ServerJSONFault
	check := func(field, text string) {
		if text != "" {
			faults = append(faults, ServerJSONFault{field, text})
		}
	}
	check("name", checkName(o.Name))
	check("description", checkDescription(o.Description))
	check("version", checkVersion(o.Version))
	doc := ServerJSON{
		Schema: serverJSONSchema, Name: o.Name, Description: o.Description, Version: o.Version,
		Meta: ServerMeta{Publisher{o.Catalog}},
	}
	if o.Image != "" {
		check("oci", checkImage(o.Image))
		doc.Packages = []ServerPackage{{RegistryType: "oci", Identifier: o.Image, Transport: ServerTransport{Type: "stdio"}}}
	}
	for i, address := range o.URLs {
		check("url", checkURL(address))
		if slices.Contains(o.URLs[:i], address) {
			check("url", fmt.Sprintf("%q is given twice", address))
		}
		doc.Remotes = append(doc.Remotes, ServerRemote{Type: "streamable-http", URL: address})
	}
	return doc, faults
}

func checkName(name string) string {
	pattern := regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)
	switch n := utf8.RuneCountInString(name); {
	case name == "":
		return "is required; use a namespace that you own in reverse-DNS form, such as com.example/shop"
	case n > maxServerName:
		return fmt.Sprintf("has %d characters; the limit is %d", n, maxServerName)
	case !pattern.MatchString(name):
		return fmt.Sprintf("%q must be a namespace in reverse-DNS form, one slash, and a name, such as com.example/shop; allowed are "+
			"letters, digits, dots and hyphens, in the name also underscores", name)
	}
	return ""
}

func checkDescription(text string) string {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		return "must not be empty"
	case n > maxServerDescription:
		return fmt.Sprintf("has %d characters; the limit is %d", n, maxServerDescription)
	}
	return ""
}

func checkVersion(version string) string {
	switch n := utf8.RuneCountInString(version); {
	case version == "":
		return "must not be empty"
	case n > maxServerVersion:
		return fmt.Sprintf("has %d characters; the limit is %d", n, maxServerVersion)
	case version == "latest":
		return `must be one version, not "latest"`
	case isRange(version):
		return fmt.Sprintf("%q is a range; give one version, such as 1.4.2", version)
	}
	return ""
}

// isRange reports whether a text looks like a range of versions: ^1.2.3, >=1.0, 1.x, 1.2.*, 1 - 2, 1 || 2.
func isRange(version string) bool {
	version = strings.TrimSpace(version)
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	isWildcard := func(part string) bool { return part == "x" || part == "X" || part == "*" }
	return strings.ContainsAny(version[:min(1, len(version))], "^~<>=") ||
		strings.Contains(version, " - ") || strings.Contains(version, "||") ||
		slices.ContainsFunc(strings.Split(core, "."), isWildcard)
}

// checkImage wants an image with its registry and its digest: a tag can be moved to an image that no one reviewed.
func checkImage(image string) string {
	pattern := regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}$`)
	name, _, hasDigest := strings.Cut(image, "@")
	host, _, _ := strings.Cut(name, "/")
	switch {
	case len(image) > maxImage:
		return fmt.Sprintf("has %d characters; the limit is %d", len(image), maxImage)
	case !hasDigest:
		return fmt.Sprintf("%q has no digest, and a tag can be moved: add @sha256:DIGEST, as `docker buildx imagetools inspect` prints it", image)
	case !pattern.MatchString(image) || !strings.ContainsAny(host, ".:") && host != "localhost":
		return fmt.Sprintf("%q must be HOST/REPOSITORY@sha256:DIGEST, such as ghcr.io/example/shop@sha256:…", image)
	}
	return ""
}

// maxImage bounds the reference to an image: 255 characters of a repository, a host, a tag and a digest fit.
const maxImage = 1024

func checkURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsFunc(address, isSpace):
		return fmt.Sprintf("%q must be an http or https URL, such as https://tools.example.com/mcp", address)
	case strings.ContainsAny(address, "{}"):
		return fmt.Sprintf("%q must be a URL, not a template", address)
	case u.User != nil:
		return "must not contain credentials: the document is public" // and so is the error, perhaps
	}
	return ""
}

func isSpace(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == '\n' }

// Warnings returns what the official registry refuses although the format allows it: parts of a name that are short or
// begin or end with another character than a letter or a digit, URLs without TLS, URLs of the host itself, and images of
// registries that it does not know.
func (d ServerJSON) Warnings() []string {
	var out []string
	strict := regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]/[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)
	if !strict.MatchString(d.Name) {
		out = append(out, fmt.Sprintf("%s: the official registry wants at least two characters on either side of the slash, "+
			"a letter or a digit at the beginning and the end of both", d.Name))
	}
	for _, p := range d.Packages {
		host, _, _ := strings.Cut(p.Identifier, "/")
		if !slices.Contains([]string{"docker.io", "registry-1.docker.io", "index.docker.io", "ghcr.io", "quay.io", "mcr.microsoft.com"}, host) &&
			!strings.HasSuffix(host, ".pkg.dev") && !strings.HasSuffix(host, ".azurecr.io") {
			out = append(out, fmt.Sprintf("%s: the official registry takes public images of docker.io, ghcr.io, quay.io, mcr.microsoft.com, *.pkg.dev and *.azurecr.io alone", p.Identifier))
		}
	}
	for _, r := range d.Remotes {
		u, err := url.Parse(r.URL)
		if err != nil {
			continue
		}
		host := u.Hostname()
		ip := net.ParseIP(host)
		switch {
		case host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback():
			out = append(out, fmt.Sprintf("%s: the official registry refuses URLs of the host itself", r.URL))
		case u.Scheme != "https":
			out = append(out, fmt.Sprintf("%s: the official registry refuses URLs that are not https", r.URL))
		}
	}
	return out
}

// ShortDescription shortens a sentence to the limit of a description, at the end of a word.
func ShortDescription(sentence string) string {
	sentence = strings.Join(strings.Fields(sentence), " ")
	runes := []rune(sentence)
	if len(runes) <= maxServerDescription {
		return sentence
	}
	const mark = "…"
	kept := runes[:maxServerDescription-1] // room for the mark
	for i := len(kept); i > 0; i-- {
		if runes[i] == ' ' {
			return strings.TrimRight(string(runes[:i]), " ,;:-") + mark
		}
	}
	return string(kept) + mark // one long word
}
