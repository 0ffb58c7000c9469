// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/answer/assertion"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// junitSuites is a file of JUnit XML, as far as CI systems agree on it.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes results of a file of assertions as JUnit XML.
func writeJUnit(path, file string, now time.Time, results []assertion.Result) error {
	suite := junitSuite{Name: "radar assert " + file, Tests: len(results), Time: now.UTC().Format("2006-01-02T15:04:05")}
	for _, r := range results {
		c := junitCase{Name: r.Name, Class: "radar." + r.Check, File: file, Line: r.Line}
		text := fmt.Sprintf("promised: %s\nmeasured: %s\npackets: %d\n%s", r.Promised, r.Measured, r.Packets, evidenceText(r))
		if r.Verdict == assertion.Fails {
			suite.Failures++
			c.Failure = &junitFailure{Message: fmt.Sprintf("promised %s, measured %s", r.Promised, r.Measured), Type: r.Check, Text: text}
		} else {
			c.Out = text
		}
		suite.Cases = append(suite.Cases, c)
	}
	b, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	b = append([]byte(xml.Header), append(b, '\n')...)
	if err := kit.WriteFile(path, b, renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func evidenceText(r assertion.Result) string {
	var b strings.Builder
	if r.Cause != "" {
		fmt.Fprintf(&b, "why: %s\n", r.Cause)
	}
	for _, e := range r.Evidence {
		fmt.Fprintf(&b, "packet %s: %s\n", e.ID, e.What)
	}
	return b.String()
}

// Characters that mean something in a workflow command: those of a message, and those of a property.
var (
	ofMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// printAnnotations prints each failure as a command for a GitHub workflow, on standard error: rows are for
// programs, and the runner reads both.
func printAnnotations(k *kit.Kit, file string, results []assertion.Result) {
	_ = k.Out.Flush() // its error is the command's
	for _, r := range results {
		if r.Verdict != assertion.Fails {
			continue
		}
		text := fmt.Sprintf("promised %s, measured %s\n%s", r.Promised, r.Measured, evidenceText(r))
		fmt.Fprintf(k.Stderr, "::error file=%s,line=%d,col=%d,title=%s::%s\n", ofProperty.Replace(file), r.Line, r.Column,
			ofProperty.Replace(r.Name), ofMessage.Replace(strings.TrimSpace(text)))
	}
}
