// SPDX-License-Identifier: Apache-2.0

package main

// style is how a text stands out on a terminal: the parameter of its escape sequence.
type style string

const (
	bold   style = "1"
	red    style = "1;31"
	yellow style = "33"
)

// paint returns the text in a style, or as it is where colours are not wanted.
func (s style) paint(colored bool, text string) string {
	if !colored || text == "" {
		return text
	}
	return own("\x1b["+string(s)+"m") + text + own("\x1b[0m")
}

// colored says whether standard output is for eyes: a terminal that can show colours,
// whose user does not object (https://no-color.org).
func (a *app) colored() bool {
	if v, ok := a.lookupEnv("NO_COLOR"); ok && v != "" {
		return false
	}
	term, _ := a.lookupEnv("TERM")
	return term != "" && term != "dumb" && isTerminal(a.stdout)
}
