// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// FromReference returns the source that one entry of catalog.descriptors names: a file, a folder or a server. A file
// whose name ends in .json has tools of a native backend.
func FromReference(ref string, bounds Limits, o FetchOptions) (Source, error) {
	switch {
	case IsRemote(ref):
		from, err := ParseFetcher(ref, o)
		if err != nil {
			return nil, err
		}
		return NewRemote(from, bounds), nil
	case isFolder(ref):
		return newDescriptorFolder(ref, bounds), nil
	case isNativeFile(ref):
		return newNativeFile(ref, bounds), nil
	}
	return NewDescriptorFile(ref, bounds), nil
}

// AddsComments reports whether descriptors only add comments to what the backend reflects.
func AddsComments(c *configv1.Catalog) bool { return c.GetDescriptorsUse() == "comments" }

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
func DescriptorFiles(c *configv1.Catalog) []string {
	var out []string
	for _, ref := range c.GetDescriptors() {
		switch {
		case IsRemote(ref):
		case isFolder(ref):
			out = append(out, folderFiles(ref)...)
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
		if _, err := ParseFetcher(ref, FetchOptions{}); err != nil {
			return err.Error()
		}
		return ""
	}
	if isFolder(ref) {
		if len(folderFiles(ref)) == 0 {
			return "folder " + ref + " has no descriptor set that can be read; names of descriptor sets end in .binpb, .pb or .desc"
		}
		return ""
	}
	if err := checkReadable(ref); err != nil {
		return err.Error() + "; `buf build -o FILE` or `protoc --include_imports --descriptor_set_out=FILE` writes one"
	}
	return ""
}

// checkReadable says why a file cannot be read, in words that need only the
// flag's name before them.
func checkReadable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file %s does not exist", path)
	}
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, not a file", path)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path) // to open a pipe waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return f.Close()
}

// Check looks at the descriptor sets and at the files for their servers, before a port opens.
func Check(cfg *configv1.Config, report func(path, message string)) {
	for i, ref := range cfg.GetCatalog().GetDescriptors() {
		if wrong := checkDescriptors(ref); wrong != "" {
			report(fmt.Sprintf("catalog.descriptors[%d]", i), wrong)
		}
	}
	servers := FetchOptions{Config: cfg.GetCatalog()}
	if err := servers.CheckCAFile(); err != nil {
		report("catalog.fetch_ca_file", err.Error())
	}
	if err := servers.CheckCredentialsFile(); err != nil {
		report("catalog.fetch_credentials_file", err.Error())
	}
}
