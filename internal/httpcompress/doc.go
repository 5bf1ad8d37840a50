// SPDX-License-Identifier: Apache-2.0

// Package httpcompress compresses the responses of HTTP handlers with gzip or zstd for clients that accept one of them. It
// sits directly around the handlers of an edge, below everything that counts bytes or watches readers.
//
// Compressed is only what is worth it and whose end comes soon: JSON and text from a least size up. Events
// (text/event-stream), responses that have an encoding, and small ones pass through unchanged. Those that could have been
// compressed say so in Vary, whether they are or not. [Compressor.Wrap] compresses only responses whose size is known, because others
// may go on for hours; [Compressor.WrapPages] is for handlers whose responses all end soon.
//
//	bound            default   unit
//	New's above      4 KiB     smallest response that is compressed
//	MaxEncoders      16        responses that are compressed at the same time; others are sent as they are
//
// An encoder takes about 1 MiB, and belongs to its response until the last byte has been taken: a slow reader takes an
// encoder away, and never makes others wait. Encoders that are not needed are left to the garbage collector.
//
// A [Compressor] is safe for concurrent use.
package httpcompress
