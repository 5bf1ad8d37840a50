// SPDX-License-Identifier: Apache-2.0

// Package watch runs the backend's streams behind watches: resources that are the newest message of a server stream.
//
// All listeners and readers with an equal key share one stream. An [Engine] keeps the newest message of each, and reports
// that it changed. A stream that ends is opened again with backoff while somebody listens. It ends with its last listener,
// and a short time after its last reader. The number of streams is bounded, with a share per caller, and so is the size of
// a kept message.
//
// The engine knows neither tools nor URIs: package bridge opens the streams, checks callers and reads the messages. All of
// it is safe for concurrent use.
package watch
