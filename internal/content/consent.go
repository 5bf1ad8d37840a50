// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// maxShownArguments bounds how much of the arguments the question for consent repeats.
const maxShownArguments = 2048

// AskConsent returns the question whether a destructive tool is to run. The arguments are shown as they are, because they are what
// the consent is for.
func AskConsent(tool, title string, arguments []byte) *outriggerv1.InputRequest {
	text := string(jsontext.Compact(nil, arguments))
	if len(text) > maxShownArguments {
		text = strings.ToValidUTF8(text[:maxShownArguments], "") + " ..."
	}
	return &outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{
		Message: "The tool " + tool + " (" + title + ") is marked destructive: its changes may be irreversible. Run it with " + text + "?",
		Mode: &outriggerv1.Elicitation_Form{Form: &outriggerv1.ElicitationForm{
			RequestedSchemaForm: &outriggerv1.ElicitationForm_RequestedSchemaJson{RequestedSchemaJson: schema.ConsentForm()},
		}},
	}}}
}

// confirmField is what the form of that question asked for in earlier versions. An answer may still have it while replicas are
// replaced. Now accepting is the consent, and there is nothing to fill in.
const confirmField = "confirm"

// Consents reports whether an answer to that question is a yes. Content that the form did not ask for, and that is no earlier
// version's yes, cannot be read, and is no consent.
func Consents(answer *outriggerv1.ElicitationResult) bool {
	if answer.GetAction() != outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT {
		return false
	}
	content, err := FreeForm(answer.GetContentJson(), answer.GetContent())
	if err != nil {
		return false
	}
	if yes, ok := jsontext.Lookup(content, confirmField); ok {
		return string(yes) == "true"
	}
	for range jsontext.Members(content) {
		return false
	}
	return len(content) == 0 || jsontext.IsObject(content)
}
