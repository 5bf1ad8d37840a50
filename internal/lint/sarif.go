// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// SARIF describes where findings are, for [Report.WriteSARIF].
type SARIF struct {
	// Version is the version of the program.
	Version string
	// File is the file that the findings are about, as a relative path; empty if there is none.
	File string
}

// The parts of SARIF 2.1.0 that a report has.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool     sarifTool     `json:"tool"`
		Language string        `json:"language"`
		Results  []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Language       string      `json:"language"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string         `json:"id"`
		ShortDescription     sarifText      `json:"shortDescription"`
		HelpURI              string         `json:"helpUri"`
		DefaultConfiguration sarifDefault   `json:"defaultConfiguration"`
		Properties           sarifRuleFacts `json:"properties"`
	}
	sarifRuleFacts struct {
		Client string `json:"client,omitempty"`
		Effect string `json:"effect"`
		Date   string `json:"date"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID              string            `json:"ruleId"`
		RuleIndex           int               `json:"ruleIndex"`
		Level               string            `json:"level"`
		Message             sarifText         `json:"message"`
		Locations           []sarifLocation   `json:"locations"`
		PartialFingerprints map[string]string `json:"partialFingerprints"`
		Properties          sarifProperties   `json:"properties"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
	sarifProperties struct {
		Client  string `json:"client,omitempty"`
		Fix     string `json:"fix"`
		Overlay string `json:"overlay,omitempty"`
	}
)

const (
	sarifSchema  = "https://json.schemastore.org/sarif-2.1.0.json"
	sarifVersion = "2.1.0"
	language     = "en-US"
	about        = "https://github.com/outrigger-mcp/outrigger/blob/main/docs/lint.md"
)

// WriteSARIF writes the report in SARIF 2.1.0. A rule of the document is a rule for one client: "client/rule".
func (r *Report) WriteSARIF(out io.Writer, o SARIF) error {
	run := sarifRun{
		Tool:     sarifTool{sarifDriver{Name: "sidecar lint", Version: o.Version, InformationURI: about, Language: language, Rules: []sarifRule{}}},
		Language: language,
		Results:  []sarifResult{},
	}
	for _, row := range ruleRows() {
		rule := sarifRule{
			ID: row.Rule, ShortDescription: sarifText{row.About}, HelpURI: row.Source, DefaultConfiguration: sarifDefault{row.Level.String()},
			Properties: sarifRuleFacts{Effect: row.Effect, Date: row.Date},
		}
		if slices.Contains(ClientNames(), row.Client) {
			rule.ID, rule.Properties.Client = row.Client+"/"+row.Rule, row.Client
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	}
	for _, f := range r.Findings {
		run.Results = append(run.Results, resultOf(f, run.Tool.Driver.Rules, o))
	}
	return writeIndented(out, sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}

func resultOf(f Finding, rules []sarifRule, o SARIF) sarifResult {
	id := f.Rule
	if f.Client != "" {
		id = f.Client + "/" + f.Rule
	}
	subject := f.Tool
	if subject == "" {
		subject = "tools"
	}
	location := sarifLocation{Logical: []sarifLogical{{FullyQualifiedName: subject + f.Path, Kind: "member"}}}
	if o.File != "" {
		location.Physical = &sarifPhysical{Artifact: sarifArtifact{(&url.URL{Path: filepath.ToSlash(o.File)}).String()}, Region: sarifRegion{1}}
	}
	text := f.Message
	if f.Tool != "" {
		text = f.Tool + ": " + text
	}
	// Tool, rule and place are the same finding, whatever its numbers are.
	seal := sha256.Sum256([]byte(strings.Join([]string{id, f.Tool, f.Path}, "\n")))
	return sarifResult{
		RuleID: id, RuleIndex: slices.IndexFunc(rules, func(r sarifRule) bool { return r.ID == id }), Level: f.Level.String(),
		Message: sarifText{text}, Locations: []sarifLocation{location},
		PartialFingerprints: map[string]string{"finding/v1": hex.EncodeToString(seal[:16])},
		Properties:          sarifProperties{Client: f.Client, Fix: f.Fix.Text, Overlay: f.Fix.Overlay},
	}
}
