// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/sha256"
	"encoding/binary"
)

// digestLabel keeps digests apart from other hashes of the same bytes.
const digestLabel = "outrigger seal v1 digest"

// Digest returns the SHA-256 of its parts, each prefixed with its length, so that no
// other list of parts has the same digest. Callers pass the values that a token must be
// bound to: the method, the name, the arguments.
func Digest(parts ...[]byte) [32]byte {
	h := sha256.New()
	h.Write([]byte(digestLabel))
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// Label returns the label of a sidecar operation in a digest, given the operation's
// name. The labels are those of the first version and never change, even if the
// operations are renamed: replicas of two versions must open each other's tokens.
func Label(operation string) []byte {
	switch operation {
	case "call_tool":
		return []byte("tools/call")
	case "list_tools":
		return []byte("tools/list")
	case "list_resources":
		return []byte("resources/list")
	case "list_resource_templates":
		return []byte("resources/templates/list")
	case "read_resource":
		return []byte("resources/read")
	case "list_prompts":
		return []byte("prompts/list")
	case "get_prompt":
		return []byte("prompts/get")
	}
	return []byte(operation)
}
