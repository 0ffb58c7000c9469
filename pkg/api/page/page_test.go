// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// sources are this folder: what the bundle is made of is below src.
var sources = os.DirFS(".")

// own are the sources that are not a library's, with their text.
func own(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, root := range []string{"src", "static"} {
		err := fs.WalkDir(sources, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(name, "src/lib/") || name == bundle {
				return err
			}
			text, err := fs.ReadFile(sources, name)
			files[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files[index] == "" || files["src/main.js"] == "" {
		t.Fatalf("files are missing: %d are there", len(files))
	}
	return files
}

const (
	bundle = "static/assets/page.js"
	index  = "static/index.html"
)

// inline finds scripts that stand in the document.
var inline = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)

// TestPolicy: the page keeps to the server's content security policy, asks no other host, and makes no markup of texts.
func TestPolicy(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"markup made of text": regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|createContextualFragment|DOMParser`),
		"code made of text":   regexp.MustCompile(`\beval\(|new Function|setTimeout\(['"]`),
		"another host":        regexp.MustCompile(`(https?:)?//[a-z0-9.-]+\.[a-z]{2,}|wss?://`),
		"an inline handler":   regexp.MustCompile(`<[a-z][^>]* on[a-z]+="`),
		"an inline style":     regexp.MustCompile(`<style|<[a-z][^>]* style="|setAttribute\('style'`),
	}
	for name, text := range own(t) {
		for what, re := range forbidden {
			if name == "static/assets/icon.svg" && what == "another host" {
				text = strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "") // a name, not an address
			}
			if found := re.FindString(text); found != "" {
				t.Errorf("%s: %s: %q", name, what, found)
			}
		}
	}
	// One script is inline: what loads the bundle, and must not need loading itself. The server allows it by its hash.
	scripts := inline.FindAllStringSubmatch(own(t)[index], -1)
	if len(scripts) != 1 || scripts[0][1] != "" || !strings.Contains(scripts[0][2], "'/assets/page.js'") || len(scripts[0][2]) > 1000 {
		t.Errorf("index.html: not one small inline script that loads the bundle: %q", scripts)
	}
}

// TestOneBundle: a browser that has the document needs one thing more. The bundle is what go generate makes of the sources.
func TestOneBundle(t *testing.T) {
	for _, m := range regexp.MustCompile(`<(?:link|img|script)[^>]*>`).FindAllString(own(t)[index], -1) {
		if m != "<script>" && !strings.Contains(m, `rel="icon"`) {
			t.Errorf("index.html: %s is a request of its own, which may fail", m)
		}
	}
	committed, err := fs.ReadFile(Files(), "assets/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`\bimport ?\(|["']/assets/`).Find(committed); found != nil {
		t.Errorf("the bundle asks for more: %s", found)
	}
	made := filepath.Join(t.TempDir(), "page.js")
	text, err := fs.ReadFile(sources, "page.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "//go:generate go ")
	line, _, _ := strings.Cut(rest, "\n")
	args := strings.Fields(strings.ReplaceAll(line, bundle, made))
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if now, err := os.ReadFile(made); err != nil || !bytes.Equal(now, committed) {
		t.Errorf("%s is not what src makes: type: go generate ./pkg/api/page (%v)", bundle, err)
	}
}

// TestReferences: whatever a file refers to is there.
func TestReferences(t *testing.T) {
	refs := regexp.MustCompile(`(?m)(?:\bfrom ?|^import )['"](\.[^'"]+)['"]|(?:src|href)="/(assets/[^"]+)"`)
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".js") && !strings.HasSuffix(name, ".html") {
			return err
		}
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		for _, m := range refs.FindAllStringSubmatch(string(text), -1) {
			to := path.Join("static", m[2])
			if m[1] != "" {
				to = path.Join(path.Dir(name), m[1])
			}
			if _, err := fs.Stat(sources, to); err != nil {
				t.Errorf("%s refers to %s: %v", name, m[1]+m[2], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLicences: each library has its licence beside it, and a line with its version.
func TestLicences(t *testing.T) {
	text, err := fs.ReadFile(sources, "src/lib/versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); !strings.HasPrefix(line, "#") {
			if len(fields) != 4 {
				t.Fatalf("versions.txt: %q", line)
			}
			listed[fields[0]] = true
		}
	}
	folders, err := fs.ReadDir(sources, "src/lib")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		if !listed[f.Name()] {
			t.Errorf("src/lib/%s: versions.txt does not name it", f.Name())
		}
		if _, err := fs.Stat(sources, path.Join("src/lib", f.Name(), "LICENSE")); err != nil {
			t.Error(err)
		}
	}
}

// TestSizes: files and functions stay so small that a reader can take them in, as in lab/test/shape.
func TestSizes(t *testing.T) {
	begin := regexp.MustCompile(`^(\s*)(?:export )?(?:async )?(?:function \w+|(?:get |async )?[a-z]\w*)\([^;]*\) \{$`)
	for name, text := range own(t) {
		lines := strings.Split(text, "\n")
		if len(lines) > 500 {
			t.Errorf("%s: %d lines", name, len(lines))
		}
		if !strings.Contains(text, "SPDX-License-Identifier: Apache-2.0") && name != "static/assets/icon.svg" {
			t.Errorf("%s: no SPDX line", name)
		}
		for i, line := range lines {
			m := begin.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for end := i + 1; end < len(lines); end++ {
				if lines[end] == m[1]+"}" {
					if end-i+1 > 60 {
						t.Errorf("%s:%d: %d lines: %s", name, i+1, end-i+1, strings.TrimSpace(line))
					}
					break
				}
			}
		}
	}
}

// TestScripts: what needs no browser is tested by node's own runner.
func TestScripts(t *testing.T) {
	need.Programs(t, "node:nodejs")
	need.Tree(t) // node reads the modules
	for name := range own(t) {
		if strings.HasSuffix(name, ".js") {
			if out, err := exec.Command("node", "--check", name).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
	if out, err := exec.Command("node", "--test", "test").CombinedOutput(); err != nil {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
