// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// onRecord is a file with figures that CI compares with. They are recorded again where the flag -update says so.
type onRecord struct {
	file     string
	isUpdate bool
}

func (r *onRecord) flags(flags *flag.FlagSet) {
	flags.StringVar(&r.file, "record", "", "the `file` that has the figures on record")
	flags.BoolVar(&r.isUpdate, "update", false, "record the figures of this run")
}

// read reads the figures on record into a value. It leaves it alone where there are none to compare with.
func (r *onRecord) read(into any) error {
	if r.file == "" || r.isUpdate {
		return nil
	}
	data, err := os.ReadFile(r.file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	return nil
}

// write records figures. It reports false where they are to be compared.
func (r *onRecord) write(figures any) (bool, error) {
	if !r.isUpdate {
		return false, nil
	}
	data, err := json.MarshalIndent(figures, "", "\t")
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(r.file, append(data, '\n'), 0o600)
}
