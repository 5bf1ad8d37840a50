// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	predicateType = "https://slsa.dev/provenance/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// writeProvenance says, signed, which files came from which commit, and writes the public key beside it.
func writeProvenance(o Options, sums []sum) error {
	statement, err := statementOf(o, sums)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	// protojson puts a space here and there, on purpose.
	var compact any
	if err := json.Unmarshal(text, &compact); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	if text, err = json.Marshal(compact); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	signer, public, err := newSigner(o.Key)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	envelopes, err := dsse.NewEnvelopeSigner(signer)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	envelope, err := envelopes.SignPayload(context.Background(), payloadType, text)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	line, err := json.Marshal(envelope)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	name := filepath.Join(o.Out, "provenance")
	return errors.Join(writeFile(name+".intoto.jsonl", append(line, '\n')), writeFile(name+".pub", public))
}

// statementOf is the statement of in-toto with SLSA's predicate.
func statementOf(o Options, sums []sum) (*intoto.Statement, error) {
	external, err := structpb.NewStruct(map[string]any{"version": o.Version, "source": "git+" + o.Names.Homepage, "dirty": o.Dirty})
	if err != nil {
		return nil, err
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: o.Names.Homepage + "/blob/main/docs/decisions/0071-release.md", ExternalParameters: external,
			ResolvedDependencies: []*intoto.ResourceDescriptor{{Uri: "git+" + o.Names.Homepage, Digest: map[string]string{"gitCommit": o.Commit}}},
		},
		RunDetails: &provenance.RunDetails{
			Builder:  &provenance.Builder{Id: o.Names.Homepage + "/make-release", Version: map[string]string{"go": runtime.Version()}},
			Metadata: &provenance.BuildMetadata{StartedOn: timestamppb.New(o.Time)},
		},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	body := new(structpb.Struct)
	if err := protojson.Unmarshal(text, body); err != nil {
		return nil, err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Predicate: body}
	for _, s := range sums {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: s.name, Digest: map[string]string{"sha256": s.digest}})
	}
	return statement, statement.Validate()
}

// newSigner reads a private key, or makes one that is never stored. It also returns the public key as PEM.
func newSigner(path string) (dsse.Signer, []byte, error) {
	var content []byte
	if path == "" {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, nil, err
		}
		content = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	} else {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return nil, nil, fmt.Errorf("key: %w", err)
		}
	}
	const want = "want a private key in PEM, PKCS#8, Ed25519 or ECDSA: `openssl genpkey -algorithm ed25519 -out FILE`"
	key, err := signerverifier.LoadKey(content)
	if err != nil {
		return nil, nil, fmt.Errorf("key %s: %w; %s", path, err, want)
	}
	if key.KeyVal.Private == "" {
		return nil, nil, fmt.Errorf("key %s is public; %s", path, want)
	}
	var signer interface {
		dsse.Signer
		Public() crypto.PublicKey
	}
	switch key.KeyType {
	case signerverifier.ED25519KeyType:
		signer, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	case signerverifier.ECDSAKeyType:
		signer, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(key)
	default:
		err = errors.New("its type is " + key.KeyType)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("key %s: %w; %s", path, err, want)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("key %s: %w", path, err)
	}
	return signer, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
