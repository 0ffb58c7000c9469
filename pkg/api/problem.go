// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http"
)

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Errors []ProblemField `json:"errors,omitempty"`
}

// ProblemField says what is wrong with one field of a request.
type ProblemField struct {
	Message string `json:"message"`
	// Location is "query.since", "path.domain" or "body.filter.dport".
	Location string `json:"location,omitempty"`
	Value    any    `json:"value,omitempty"`
}

// ProblemType is what a Problem is sent as.
const ProblemType = "application/problem+json"

// Refuse answers with a Problem.
func Refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(Problem{Title: http.StatusText(status), Status: status, Detail: detail}) // who asked may be gone
}
