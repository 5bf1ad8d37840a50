// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"time"
)

// ReadClient reads the files once, for a dialer that knows many servers and sets the
// name of each itself. It uses the CAs, the certificate and the key of the options; each
// may be empty.
func ReadClient(o ClientOptions) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if o.CAFile != "" {
		if out.RootCAs, err = readPool(o.CAFile); err != nil {
			return nil, err
		}
	}
	switch {
	case o.CertFile == "" && o.KeyFile == "":
	case o.CertFile == "" || o.KeyFile == "":
		return nil, ErrHalfPair
	default:
		pair, err := readPair(o.CertFile, o.KeyFile, time.Now())
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{*pair}
	}
	return out, nil
}
