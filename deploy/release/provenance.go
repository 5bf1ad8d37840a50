// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	statementFile = "provenance.intoto.jsonl"
	keyFile       = "provenance.pub"
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
	return errors.Join(writeFile(filepath.Join(o.Out, statementFile), append(line, '\n')), writeFile(filepath.Join(o.Out, keyFile), public))
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

// verify compares the files of a release with its statement, and the statement with what is to be published.
func (o Options) verify() error {
	again := fmt.Sprintf("build it with `make release VERSION=%s`", o.Version)
	if strings.HasSuffix(o.Version, "-dev") {
		return fmt.Errorf("version is %s, which is no release's; name one, such as VERSION=0.1.0", o.Version)
	}
	statement, err := readStatement(filepath.Join(o.Out, statementFile))
	if err != nil {
		return fmt.Errorf("there is no release %s in %s: %w; %s", o.Version, o.Out, err, again)
	}
	definition := statement.Predicate.BuildDefinition
	if got := definition.ExternalParameters.Version; got != o.Version {
		return fmt.Errorf("the release in %s is %s, not %s; %s", o.Out, got, o.Version, again)
	}
	if definition.ExternalParameters.Dirty && !o.Dirty {
		return fmt.Errorf("the release in %s was built from a tree with changes; commit them, and %s", o.Out, again)
	}
	if len(definition.ResolvedDependencies) == 0 || o.Commit != "" && definition.ResolvedDependencies[0].Digest.Commit != o.Commit {
		return fmt.Errorf("the release in %s was not built from the present commit %s; %s", o.Out, o.Commit, again)
	}
	missing := map[string]string{}
	for _, s := range statement.Subject {
		missing[s.Name] = s.Digest.Sum
	}
	sums, err := sumsOf(o.Out)
	if err != nil {
		return err
	}
	for _, s := range sums {
		if missing[s.name] != s.digest {
			return fmt.Errorf("%s was changed or added after the release was built; %s", filepath.Join(o.Out, s.name), again)
		}
		delete(missing, s.name)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		return fmt.Errorf("%s is missing; %s", filepath.Join(o.Out, name), again)
	}
	if text, err := os.ReadFile(filepath.Join(o.Out, sumsFile)); err != nil || !bytes.Equal(text, textOf(sums)) {
		return errors.Join(fmt.Errorf("%s is missing or was changed; %s", filepath.Join(o.Out, sumsFile), again), err)
	}
	return nil
}

// stated is what a release says about itself.
type stated struct {
	Subject []struct {
		Name   string `json:"name"`
		Digest struct {
			Sum string `json:"sha256"`
		} `json:"digest"`
	} `json:"subject"`
	Predicate struct {
		BuildDefinition struct {
			ExternalParameters struct {
				Version string `json:"version"`
				Dirty   bool   `json:"dirty"`
			} `json:"externalParameters"`
			ResolvedDependencies []struct {
				Digest struct {
					Commit string `json:"gitCommit"`
				} `json:"digest"`
			} `json:"resolvedDependencies"`
		} `json:"buildDefinition"`
	} `json:"predicate"`
}

// readStatement returns the statement in an envelope.
func readStatement(path string) (stated, error) {
	var out stated
	content, err := os.ReadFile(path)
	if err != nil {
		return out, err
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(content, &envelope); err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(envelope.Payload, &out); err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
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
