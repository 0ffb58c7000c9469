// SPDX-License-Identifier: Apache-2.0

// Package serve has "radar serve".
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/api/page"
	v1 "github.com/vnetradar/radar/pkg/api/v1"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

const long = `Serves a page that shows the network live, and the HTTP API behind it (docs/api.md): every
question of the command line with the same filters and rows, events as they come, and
/metrics for Prometheus with what radar measures itself.

It serves all domains of this machine, also those that are attached later, and with -r
recordings (radar record) and capture files with telemetry reports. Several servers may run. None of them is needed for
measuring, and none of them slows it down.

At 127.0.0.1, the default, reading takes no token. Whatever steers (INT intents) does, and
at any other address so does everything, by TLS only: --tls-cert and --tls-key, or
--self-signed, whose fingerprint is printed. The token is in a file that this user alone
can read. It is made when there is none; its path is printed. The page asks for the token.

Requests have to name the server by an address, as localhost, or by a name of --host.
It runs until Ctrl-C.`

const example = `  radar serve
  radar serve --open
  radar serve -r reports.pcap
  radar serve -r radar-default-20260302-101504   # a recording
  radar serve --listen 0.0.0.0:8480 --self-signed --host lab.example
  curl -s http://127.0.0.1:8480/api/v1/domains/default/loss | jq .rows
  curl -sN 'http://127.0.0.1:8480/api/v1/domains/default/events?topic=loss'`

// otherName is what a request is told that names another server.
const otherName = "this server does not answer to the name %.100q: use its address, or «serve ‹host› NAME»"

// options are the flags of "radar serve".
type options struct {
	listen     string
	hosts      []string
	files      []string
	token      string
	cert, key  string
	selfSigned bool
	open       bool
}

// NewCmd returns "radar serve".
func NewCmd(k *kit.Kit, version string) *cobra.Command {
	f := &options{}
	cmd := &cobra.Command{
		Use:               "serve",
		Short:             "Serve the page that shows the network live, and the HTTP API",
		Long:              long,
		Example:           example,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return serve(k, cmd.Context(), f, version) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8480", "address and port, or a port of 127.0.0.1; port 0: one that is free")
	flags.StringSliceVar(&f.hosts, "host", nil, "names by which clients may call the server, beside localhost and any address")
	flags.StringSliceVarP(&f.files, "read", "r", nil, "serve recordings (directories of radar record, or one of their files) and capture files with telemetry reports, too")
	flags.StringVar(&f.token, "token-file", "", "file with the token (default: "+api.TokenFile+" in the state directory)")
	flags.StringVar(&f.cert, "tls-cert", "", "PEM file with the certificate, and those between it and its authority")
	flags.StringVar(&f.key, "tls-key", "", "PEM file with its private key")
	flags.BoolVar(&f.selfSigned, "self-signed", false, "make a certificate, and print its fingerprint")
	flags.BoolVar(&f.open, "open", false, "open the page in a browser")
	_ = cmd.MarkFlagFilename("read", "pcap", "pcapng", "parquet")
	_ = cmd.MarkFlagFilename("tls-cert")
	_ = cmd.MarkFlagFilename("tls-key")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// serve serves until Ctrl-C.
func serve(k *kit.Kit, ctx context.Context, f *options, version string) error {
	files, err := readFiles(f.files)
	if err != nil {
		return err
	}
	secrets, err := f.secrets()
	if err != nil {
		return err
	}
	guard := &api.Guard{Token: secrets.token, OpenReading: secrets.loopback, Public: v1.Public}
	log := slog.New(kit.NewLineHandler(k.Stderr))
	server, err := api.Listen(api.Config{
		Address: f.listen, Names: f.hosts, OtherName: otherName, Face: kit.Face, Log: log,
		Listeners: v1.Listeners, TLS: secrets.tls, Guard: guard,
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	v1.Serve(ctx, server, v1.Config{
		Version: version, Default: k.Domain, Files: files, Page: page.Files(), TLS: secrets.tls != nil,
		Guard: guard, Face: kit.Face, Log: log,
	})
	address := f.say(k, server, secrets)
	if f.open {
		openPage(k, address)
	}
	return run(ctx, server)
}

// run serves until ctx is done, and lets answers end then.
func run(ctx context.Context, server *api.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	server.Shutdown(ended)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// say prints where the server is, and returns that.
func (f *options) say(k *kit.Kit, server *api.Server, s *secrets) string {
	scheme := "http"
	if s.tls != nil {
		scheme = "https"
	}
	address := fmt.Sprintf("%s://%v/", scheme, server.Addr())
	fmt.Fprintf(k.Stderr, "radar: serving %s\n", address)
	fmt.Fprintf(k.Stderr, "radar: the token for steering, and for reading from elsewhere, is in %s\n", s.tokenPath)
	if s.fingerprint != "" {
		fmt.Fprintf(k.Stderr, "radar: the certificate's SHA-256 fingerprint is %s\n", s.fingerprint)
	}
	return address
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// isRecording reports whether a path is a directory of segments, or one of them.
func isRecording(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.IsDir() || filepath.Ext(path) == ".parquet"
}

// readFile opens a recording, or a capture file.
func readFile(path string) (answer.File, error) {
	if isRecording(path) {
		return answer.ReadRecorded(path)
	}
	return answer.ReadCapture(path, nil)
}

// readFiles reads recordings and capture files, each as a domain called like the file or folder.
func readFiles(files []string) (map[string]answer.File, error) {
	list := make(map[string]answer.File)
	for _, path := range files {
		c, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("--read: %w", err)
		}
		base := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		base = strings.Trim(notInName.ReplaceAllString(base, "-"), "-_")
		name := base[:min(len(base), 28)]
		for i := 2; name == "" || list[name] != nil || statedir.CheckDomain(name) != nil; i++ {
			name = fmt.Sprintf("%.20s-%d", "capture-"+base, i)
		}
		list[name] = c
	}
	return list, nil
}

// openPage opens the page with the desktop's browser.
func openPage(k *kit.Kit, address string) {
	if err := exec.Command("xdg-open", address).Start(); err != nil {
		fmt.Fprintf(k.Stderr, "radar: --open: %v: open %s yourself\n", err, address)
	}
}

var errUnsafe = fault.Usage.Errorf("--listen at another address than 127.0.0.1 takes TLS: --tls-cert and --tls-key, or --self-signed")
