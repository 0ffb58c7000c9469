// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// needsFile lists the programs of a lab that few machines have. Kathará passes over it: there they
// are in the images.
const needsFile = "needs.json"

// Program is one that the scripts of a lab call.
type Program struct {
	Name string `json:"program"`
	How  string `json:"how"` // to get it
}

// MissingError says that a lab needs a program that is not in PATH.
type MissingError struct {
	Lab     string
	Program Program
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s needs %s, which is not in PATH: %s", e.Lab, e.Program.Name, e.Program.How)
}

func parseNeeds(text string) ([]Program, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	var needs []Program
	if err := dec.Decode(&needs); err != nil {
		return nil, fmt.Errorf("read needs: %w", err)
	}
	return needs, nil
}

// missing is the first program that is not there, as an error.
func (t *Topology) missing(lab string) error {
	for _, p := range t.Needs {
		if _, err := exec.LookPath(p.Name); err != nil {
			return &MissingError{Lab: lab, Program: p}
		}
	}
	return nil
}
