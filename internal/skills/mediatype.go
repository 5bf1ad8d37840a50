// SPDX-License-Identifier: Apache-2.0

package skills

import (
	"path"
	"strings"
	"unicode/utf8"
)

// mediaType is the media type of a file, by its name, else by its content. The table is here and not the system's, so that
// every replica says the same.
func mediaType(name string, data []byte) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown":
		return MarkdownType
	case ".json":
		return "application/json"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".toml":
		return "application/toml"
	case ".xml":
		return "application/xml"
	case ".csv":
		return "text/csv"
	case ".html", ".htm":
		return "text/html"
	case ".css":
		return "text/css"
	case ".js", ".mjs":
		return "text/javascript"
	case ".py":
		return "text/x-python"
	case ".sh":
		return "application/x-sh"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".pdf":
		return "application/pdf"
	case ".zip":
		return "application/zip"
	case ".wasm":
		return "application/wasm"
	}
	if utf8.Valid(data) {
		return "text/plain"
	}
	return "application/octet-stream"
}
