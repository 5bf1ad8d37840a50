// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// comments are those of the services and methods of the files that are built. They are read from the files, because the
// descriptors would make an index of all locations of a file to find one, and keep it.
type comments map[string]map[place]string

// place is a service of a file, or a method of it.
type place struct{ service, method int32 }

const (
	// servicesInFile and methodsInService are the numbers by which comments name them.
	servicesInFile   = 6
	methodsInService = 2
	// noMethod stands for the service itself.
	noMethod = -1
)

// of is the comment of a service or a method as prose: the one before it, else the one behind it, cleaned. Empty where the
// source kept none.
func (c comments) of(d protoreflect.Descriptor, linked *linker) string {
	file := d.ParentFile()
	if file == nil {
		return ""
	}
	proto := linked.merged.files[file.Path()]
	if proto == nil {
		at := file.SourceLocations().ByDescriptor(d)
		return chosenComment(at.LeadingComments, at.TrailingComments)
	}
	known, ok := c[file.Path()]
	if !ok {
		known = commentsOfServices(proto)
		c[file.Path()] = known
	}
	if _, isMethod := d.(protoreflect.MethodDescriptor); isMethod {
		return known[place{int32(d.Parent().Index()), int32(d.Index())}]
	}
	return known[place{int32(d.Index()), noMethod}]
}

// commentsOfServices are the comments of a file's services and methods. The first of two at one place counts.
func commentsOfServices(file *descriptorpb.FileDescriptorProto) map[place]string {
	out := map[place]string{}
	for _, l := range file.GetSourceCodeInfo().GetLocation() {
		at, ok := placeOf(l.GetPath())
		if _, isKnown := out[at]; ok && !isKnown {
			out[at] = chosenComment(l.GetLeadingComments(), l.GetTrailingComments())
		}
	}
	return out
}

func placeOf(path []int32) (place, bool) {
	switch {
	case len(path) == 2 && path[0] == servicesInFile:
		return place{path[1], noMethod}, true
	case len(path) == 4 && path[0] == servicesInFile && path[2] == methodsInService:
		return place{path[1], path[3]}, true
	}
	return place{}, false
}

func chosenComment(before, behind string) string {
	if text := cleanComment(before); text != "" {
		return text
	}
	return cleanComment(behind)
}
