// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/recorder"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// startRecorder starts the domain's recorder in the background, if one is asked for.
func (f *attachOptions) startRecorder(name string, view *attachView) error {
	if f.record == "" {
		return nil
	}
	dir, err := filepath.Abs(f.record) // the process runs elsewhere
	if err != nil {
		return err
	}
	if running, err := recorder.Find(name); err != nil || running != nil {
		defer running.Close()
		return errors.Join(err, alreadyRecorded(running))
	}
	find := func() (host.Process, error) {
		r, err := recorder.Find(name)
		if r == nil {
			return host.Process{}, err
		}
		r.Close()
		return r.Process, err
	}
	args, err := f.recorderArgs(name)
	if err != nil {
		return err
	}
	started, err := background.Start(domain.File(name, recorder.LogFile), find, append(args, "--write", dir, background.Domain, name)...)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	view.Recorder = &recorderView{PID: started.PID, Dir: dir, Log: started.Log}
	return nil
}

// recorderArgs are those of the process, which are of the domain as it is now.
func (f *attachOptions) recorderArgs(name string) ([]string, error) {
	if len(f.on) == 0 {
		return []string{"record", "--history"}, nil
	}
	d, err := domain.Load(name)
	if err != nil {
		return nil, err
	}
	args := []string{"record"}
	for _, text := range f.on {
		text, err := recorder.Absolute(text) // the process runs elsewhere
		if err != nil {
			return nil, err
		}
		if _, err := recorder.ParseCondition(text, d); err != nil {
			return nil, fault.Usage.Errorf("attached, but nothing is recorded: --on %w", err)
		}
		args = append(args, "--on", text)
	}
	return args, nil
}

// alreadyRecorded says that there is a recorder, nil if there is none.
func alreadyRecorded(r *recorder.Running) error {
	if r == nil {
		return nil
	}
	return fmt.Errorf("--record: process %d records the domain into %s already", r.PID, r.Dir)
}

// recorderView is a recorder in the background.
type recorderView struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"`
	Log string `json:"log,omitempty"`
}

// findRecorder is the domain's recorder in the background, before the domain ends; nil: there is none.
func findRecorder(k *kit.Kit) *recorder.Running {
	r, _ := recorder.Find(k.Domain) // what is wrong with the directory detaching says
	return r
}

// awaitRecorder waits until a recorder has finished its files, if the domain has ended, and says where they are and what
// it has not kept: its log has gone with the domain.
func awaitRecorder(k *kit.Kit, ctx context.Context, r *recorder.Running) error {
	if r == nil {
		return nil
	}
	defer r.Close()
	if _, err := domain.Load(k.Domain); !errors.Is(err, domain.ErrNotAttached) {
		return nil
	}
	err := r.Await(ctx)
	switch {
	case r.Dir == "": // it has said nothing yet
	case r.Kept == nil && r.Ended:
		fmt.Fprintf(k.Stderr, "radar: the recorder was ended before it had finished; what it has kept: radar packets -r %s\n", words.Arg(r.Dir))
	case r.Kept == nil:
		fmt.Fprintf(k.Stderr, "radar: the recorder ended before it had finished; what it has kept: radar packets -r %s\n", words.Arg(r.Dir))
	case *r.Kept == 0:
		fmt.Fprintf(k.Stderr, "radar: no packet was kept in %s\n", r.Dir)
	default:
		fmt.Fprintf(k.Stderr, "radar: %s kept in %s; look at them with: radar packets -r %s\n", words.PacketsWere(*r.Kept), r.Dir, words.Arg(r.Dir))
	}
	for _, cause := range answer.SortedKeys(r.NotKept) {
		fmt.Fprintf(k.Stderr, "radar: %s not recorded in %s: %s\n", words.PacketsWere(r.NotKept[cause]), r.Dir, cause)
	}
	if r.LastError != "" {
		fmt.Fprintf(k.Stderr, "radar: the recorder's last error: %s\n", r.LastError)
	}
	return err
}
