// SPDX-License-Identifier: Apache-2.0

package k8s

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Render returns the objects of a folder with a kustomization, as YAML
// documents. Like kubectl it reads no file outside of the kustomizations that
// the folder names.
func Render(folder string) ([]byte, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", folder, err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", folder, err)
	}
	return text, nil
}
