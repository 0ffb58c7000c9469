// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/vnetradar/radar/p4/wireshark"
)

// part is one of the files that Wireshark gets.
type part struct {
	name    string // in JSON
	text    string // in tables
	file    string // its name
	mode    os.FileMode
	content func(radar string) ([]byte, error)
	is      func([]byte) bool // it is this file, of any version
	extcap  bool              // it lies in the folder of capture programs, not in the one of plugins
}

// parts are all files.
func parts() (list []part) {
	for _, p := range wireshark.Plugins {
		list = append(list, part{
			name: string(p), text: map[wireshark.Plugin]string{wireshark.INT: "INT", wireshark.Packets: "packets"}[p] + " (plugin)", file: p.Name(), mode: 0o644,
			content: func(string) ([]byte, error) { return p.File() }, is: p.Is,
		})
	}
	return append(list, part{
		name: "extcap", text: "live capture", file: "radar", mode: 0o755, extcap: true,
		content: func(radar string) ([]byte, error) { return script(radar), nil },
		is:      func(b []byte) bool { return bytes.HasPrefix(b, []byte(scriptHead)) },
	})
}

const scriptHead = "#!/bin/sh\n# Made by radar wireshark --install: domains of radar among Wireshark's interfaces.\n"

// script is what Wireshark runs. It may lie where a link to radar would tell radar nothing.
func script(radar string) []byte {
	return fmt.Appendf(nil, "%sexec '%s' extcap \"$@\"\n", scriptHead, strings.ReplaceAll(radar, "'", `'\''`))
}

// States of a place.
const (
	notThere     = "not installed"
	thisVersion  = "installed"
	otherVersion = "another version"
	otherFile    = "another file"
)

// Whose a place is.
const (
	user     = "user"
	everyone = "all"
)

// place is a file that Wireshark takes if it is there.
type place struct {
	For   string `json:"for"`  // user, all
	What  string `json:"what"` // radar_int, radar_packets, extcap
	File  string `json:"file"`
	State string `json:"state"`

	part part
}

// report is the JSON form of "radar wireshark".
type report struct {
	Tshark bool    `json:"tshark"` // it is here, and has named the folders
	Places []place `json:"places"`

	// ownExtcap: this Wireshark looks into a folder of the user's own for capture programs.
	ownExtcap bool
}

// folderLines are those of tshark -G folders that name folders of plugins and of capture programs. Older ones have
// one folder of the latter, for everyone.
var folderLines = regexp.MustCompile(`(?m)^(Personal |Global )?(Lua Plugins|Extcap path):\s*(/.+)$`)

// folders are the folders by whose and which they are.
type folders map[string]string

func key(whose string, extcap bool) string {
	if extcap {
		return whose + " extcap"
	}
	return whose + " plugins"
}

// find asks tshark where it and Wireshark look. Where there is none, they will look in ~/.local.
func find(ctx context.Context, radar string) (report, error) {
	var r report
	dirs := make(folders)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "tshark", "-G", "folders").Output(); err == nil {
		r.Tshark = true
		for _, m := range folderLines.FindAllStringSubmatch(string(out), -1) {
			whose := everyone
			if m[1] == "Personal " {
				whose = user
			}
			dirs[key(whose, m[2] == "Extcap path")] = strings.TrimSpace(m[3])
		}
	}
	r.ownExtcap = !r.Tshark || dirs[key(user, true)] != ""
	for extcap, dir := range map[bool]string{false: "plugins", true: "extcap"} {
		if dirs[key(user, extcap)] != "" {
			continue
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return r, fmt.Errorf("find your folders of Wireshark: %w", err)
		}
		dirs[key(user, extcap)] = filepath.Join(home, ".local/lib/wireshark", dir)
	}
	for _, whose := range []string{user, everyone} {
		for _, part := range parts() {
			dir := dirs[key(whose, part.extcap)]
			if dir == "" {
				continue
			}
			p := place{For: whose, What: part.name, File: filepath.Join(dir, part.file), part: part}
			if err := p.look(radar); err != nil {
				return r, err
			}
			r.Places = append(r.Places, p)
		}
	}
	return r, nil
}

// look says whether the file is the one that this radar has.
func (p *place) look(radar string) error {
	want, err := p.part.content(radar)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(p.File)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.State = notThere
	case err != nil:
		return fmt.Errorf("look at what Wireshark has: %w", err)
	case bytes.Equal(have, want):
		p.State = thisVersion
	case p.part.is(have):
		p.State = otherVersion
	default:
		p.State = otherFile
	}
	return nil
}

// own looks at a file that may be replaced or removed: a file of somebody else may not.
func (p *place) own(radar string) error {
	err := p.look(radar)
	if err == nil && p.State == otherFile {
		err = fmt.Errorf("%s is not radar's: move it away first", p.File)
	}
	return err
}

// remove removes the file, and says what it did.
func (p *place) remove(radar string) (said string, err error) {
	if err := p.own(radar); err != nil || p.State == notThere {
		return notThere, err
	}
	if err := os.Remove(p.File); err != nil {
		return "", fmt.Errorf("remove what Wireshark has: %w", err)
	}
	p.State = notThere
	return "removed", nil
}

// install writes the file.
func (p *place) install(radar string) error {
	if err := p.own(radar); err != nil {
		return err
	}
	content, err := p.part.content(radar)
	if err != nil {
		return err
	}
	if err := replaceFile(p.File, content, p.part.mode); err != nil {
		return fmt.Errorf("install for Wireshark: %w", err)
	}
	p.State = thisVersion
	return nil
}

// replaceFile writes a file that others may read, and that is never there by half.
func replaceFile(file string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// Wireshark loads no file whose name begins with a dot.
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file))
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
