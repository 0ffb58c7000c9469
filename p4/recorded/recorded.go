// SPDX-License-Identifier: Apache-2.0

// Package recorded reads and writes what make p4-test has recorded of the P4 program on BMv2:
// p4/testdata has a capture of each case, with one interface for each link of lab int-p4, and a
// manifest. Tests take frames of real switches from there.
package recorded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/p4"
)

// Links are those of the lab: A is that of h1, L2 and L3 lead from s1 to s2 and s3, R2 and R3 from
// there to s4, B is that of h2, and T that of the collector.
var Links = []string{"A", "L2", "L3", "R2", "R3", "B", "T"}

// ManifestFile is the name of the manifest in the folder.
const ManifestFile = "manifest.json"

// Manifest says what was recorded.
type Manifest struct {
	Program string  `json:"program"` // Sum of the program that ran
	BMv2    string  `json:"bmv2"`    // versions
	P4C     string  `json:"p4c"`
	Cases   []*Case `json:"cases"`
}

// Case is one setting of the switches.
type Case struct {
	Name     string           `json:"name"`
	File     string           `json:"file"`
	SHA256   string           `json:"sha256"` // of the file
	Sent     int              `json:"sent"`   // frames
	Stacks   int              `json:"stacks"` // of INT that were compared when it was recorded
	Reports  int              `json:"reports"`
	Counters map[int]Counters `json:"counters"` // by switch: what was added during the case
	Next     map[int]uint32   `json:"next"`     // by switch: the number of its first report
	// Places are where each frame that was sent was seen: the switch in the middle (2 or 3, 0: it did not
	// come so far), and its place among the packets of links A, L, R and B, -1 where it was not seen.
	Places [][5]int `json:"places"`

	// Packets are those of each link, in the order of their capture.
	Packets map[string][]Packet `json:"-"`
}

// Counters are those of a switch, by index. Zeros are left out. docs/p4.md says what they count.
type Counters struct {
	Skipped map[int]int `json:"skipped,omitempty"`
	Done    map[int]int `json:"done,omitempty"`
	Drops   map[int]int `json:"drops,omitempty"`
	Watched int         `json:"watched,omitempty"` // of the case's entry of the watchlist
}

// Packet is a frame, from Ethernet on.
type Packet struct {
	Time time.Time
	Data []byte
}

// Journey is a frame that h1 has sent, as it was on each link of its way: A, then behind the source, behind
// the transit, and B, behind the sink. nil where it was not seen.
type Journey struct {
	Middle                       int // the transit, 2 or 3; 0: it did not come so far
	Sent, Marked, Grown, Arrived []byte
}

// Journeys are those of all frames of the case.
func (c *Case) Journeys() []Journey {
	all := make([]Journey, len(c.Places))
	for i, p := range c.Places {
		j := Journey{Middle: p[0]}
		for at, to := range []*[]byte{&j.Sent, &j.Marked, &j.Grown, &j.Arrived} {
			link := []string{"A", fmt.Sprint("L", p[0]), fmt.Sprint("R", p[0]), "B"}[at]
			if n := p[at+1]; n >= 0 && n < len(c.Packets[link]) {
				*to = c.Packets[link][n].Data
			}
		}
		all[i] = j
	}
	return all
}

// Sum identifies the program that is built into radar.
func Sum() string {
	h := sha256.New()
	h.Write(p4.JSON)
	h.Write(p4.Info)
	return hex.EncodeToString(h.Sum(nil))
}

// Read reads the folder p4/testdata, with all captures.
func Read(dir string) (*Manifest, error) {
	b, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("read what was recorded: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("read what was recorded: %s: %w", ManifestFile, err)
	}
	for _, c := range m.Cases {
		if err := c.read(dir); err != nil {
			return nil, fmt.Errorf("read what was recorded: %s: %w", c.File, err)
		}
	}
	return m, nil
}

// Case returns the case with that name, or nil.
func (m *Manifest) Case(name string) *Case {
	for _, c := range m.Cases {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (c *Case) read(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, c.File))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != c.SHA256 {
		return errors.New("its checksum is not the manifest's")
	}
	r, err := pcapgo.NewNgReader(strings.NewReader(string(b)), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return err
	}
	c.Packets = make(map[string][]Packet)
	for {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		on, err := r.Interface(info.InterfaceIndex)
		if err != nil {
			return err
		}
		c.Packets[on.Name] = append(c.Packets[on.Name], Packet{info.Timestamp, data})
	}
}

// Write writes the manifest and the captures into an empty folder.
func (m *Manifest) Write(dir string) error {
	for i, c := range m.Cases {
		c.File = fmt.Sprintf("%02d-%s.pcapng", i+1, slug(c.Name))
		if err := c.write(dir); err != nil {
			return fmt.Errorf("record %s: %w", c.Name, err)
		}
	}
	b, err := m.text()
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, ManifestFile), b, 0o644)
}

// text is the manifest as JSON, with a line for each case.
func (m *Manifest) text() ([]byte, error) {
	head := *m
	head.Cases = nil
	b, err := json.Marshal(&head)
	b = bytes.TrimSuffix(b, []byte("null}"))
	b = append(b, '[')
	for i, c := range m.Cases {
		line, cerr := json.Marshal(c)
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '\n'), line...)
		err = errors.Join(err, cerr)
	}
	return append(b, "\n]}\n"...), err
}

func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r > 'z' || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789", r) })
	return strings.Join(words, "-")
}

func (c *Case) write(dir string) error {
	type numbered struct {
		link int
		Packet
	}
	var all []numbered
	for i, link := range Links {
		for _, p := range c.Packets[link] {
			all = append(all, numbered{i, p})
		}
	}
	slices.SortStableFunc(all, func(a, b numbered) int { return a.Time.Compare(b.Time) })
	var file strings.Builder
	itf := func(name string) pcapgo.NgInterface {
		return pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, TimestampResolution: 6}
	}
	w, err := pcapgo.NewNgWriterInterface(&file, itf(Links[0]), pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Comment: c.Name}})
	if err != nil {
		return err
	}
	for _, name := range Links[1:] {
		if _, err := w.AddInterface(itf(name)); err != nil {
			return err
		}
	}
	for _, p := range all {
		info := gopacket.CaptureInfo{Timestamp: p.Time, CaptureLength: len(p.Data), Length: len(p.Data), InterfaceIndex: p.link}
		if err := w.WritePacket(info, p.Data); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(file.String()))
	c.SHA256 = hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(dir, c.File), []byte(file.String()), 0o644)
}
