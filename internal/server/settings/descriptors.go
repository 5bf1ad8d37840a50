// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// DescriptorSource returns the source that one entry of catalog.descriptors names: a file, a folder or a server.
func DescriptorSource(ref string, bounds source.Limits, o source.FetchOptions) (source.Source, error) {
	switch {
	case IsRemote(ref):
		from, err := source.ParseFetcher(ref, o)
		if err != nil {
			return nil, err
		}
		return source.NewRemote(from, bounds), nil
	case isFolder(ref):
		return source.NewDescriptorFolder(ref, bounds), nil
	}
	return source.NewDescriptorFile(ref, bounds), nil
}

// AddsComments reports whether descriptors only add comments to what the backend reflects.
func AddsComments(c *configv1.Catalog) bool { return c.GetDescriptorsUse() == "comments" }

// MakesTools reports whether tools are made of descriptors, in place of reflection.
func MakesTools(c *configv1.Catalog) bool { return len(c.GetDescriptors()) > 0 && !AddsComments(c) }

// FetchOptions are how servers of descriptors are reached.
func FetchOptions(c *configv1.Catalog) source.FetchOptions {
	return source.FetchOptions{CAFile: c.GetFetchCaFile(), CredentialsFile: c.GetFetchCredentialsFile(), RunsHelpers: c.GetFetchDockerHelpers()}
}

// FetchTime is how long the descriptors on servers may take at most: one after another, as where they add comments.
func FetchTime(c *configv1.Catalog) time.Duration {
	var all time.Duration
	for _, ref := range c.GetDescriptors() {
		if IsRemote(ref) {
			all += c.GetFetchTimeout().AsDuration()
		}
	}
	return all
}

// IsRemote reports whether an entry of catalog.descriptors names descriptors that are not in a file.
func IsRemote(ref string) bool { return strings.Contains(ref, "://") }

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// DescriptorFiles returns the descriptor files to watch: those that the configuration names, and those in the folders that it
// names.
func DescriptorFiles(cfg *configv1.Config) []string {
	var out []string
	for _, ref := range cfg.GetCatalog().GetDescriptors() {
		switch {
		case IsRemote(ref):
		case isFolder(ref):
			out = append(out, source.FolderFiles(ref)...)
		default:
			out = append(out, ref)
		}
	}
	return out
}

// checkDescriptors looks at one entry of catalog.descriptors before a port opens. What is in a descriptor set is for the
// catalog to say: it may be written again at any time.
func checkDescriptors(ref string) string {
	if IsRemote(ref) {
		if _, err := source.ParseFetcher(ref, source.FetchOptions{}); err != nil {
			return err.Error()
		}
		return ""
	}
	if isFolder(ref) {
		if len(source.FolderFiles(ref)) == 0 {
			return "folder " + ref + " has no descriptor set that can be read; names of descriptor sets end in .binpb, .pb or .desc"
		}
		return ""
	}
	if err := checkReadable(ref); err != nil {
		return err.Error() + "; `buf build -o FILE` or `protoc --include_imports --descriptor_set_out=FILE` writes one"
	}
	return ""
}
