// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// checkFiles refuses files that are none: to open a pipe waits for a writer, and some devices have no end. It returns false
// if there is one, after which no other check may open it. A file that is missing is another matter.
func (d *draft) checkFiles() (ok bool) {
	ok = true
	_ = protorange.Range(d.root.ProtoReflect(), func(values protopath.Values) error {
		at := values.Index(-1)
		if at.Step.Kind() != protopath.FieldAccessStep || !strings.HasSuffix(string(at.Step.FieldDescriptor().Name()), "_file") {
			return nil
		}
		name, isText := at.Value.Interface().(string)
		if why := notAFile(name); isText && why != "" {
			ok = false
			d.judge(strings.TrimPrefix(values.Path[1:].String(), "."), name+" "+why)
		}
		return nil
	})
	return ok
}

// notAFile says what a path leads to that is neither a file nor a folder; folders have words of their own.
func notAFile(name string) string {
	info, err := os.Stat(name)
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return ""
	}
	what := "device"
	switch info.Mode().Type() {
	case fs.ModeNamedPipe:
		what = "pipe"
	case fs.ModeSocket:
		what = "socket"
	}
	return fmt.Sprintf("is a %s; want a regular file", what)
}
