// SPDX-License-Identifier: Apache-2.0

// Package docker asks a Docker engine which containers there are, which process
// each of them has here, and which come and go. It is the only package that
// knows the engine's API; the engine is the one that DOCKER_HOST names, as for
// the docker command.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// ErrNoContainer: no container has that name or id.
var ErrNoContainer = errors.New("no such container")

// ErrNoEngine: no engine answers, or it does not answer this user. The message
// says what to do.
var ErrNoEngine = errors.New("no Docker engine")

// Container is one container.
type Container struct {
	ID     string
	Name   string
	Labels map[string]string
	State  string // as the engine calls it: running, exited, ...
	PID    int    // of its first process; 0 unless it runs
	// HostNetwork: it has no network of its own but the host's. Joined is the name
	// of the container whose network it uses instead of one of its own.
	HostNetwork bool
	Joined      string
}

// Runs reports whether the container has processes.
func (c *Container) Runs() bool { return c.PID > 0 }

// Engine is a connection to an engine. Its methods may be used concurrently. The
// caller closes it.
type Engine struct {
	api *client.Client
}

// answerTime bounds one question to the engine.
const answerTime = 10 * time.Second

// Connect finds an engine that answers. If there is none, or no permission, the
// error is ErrNoEngine.
func Connect(ctx context.Context) (*Engine, error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("find Docker engine (DOCKER_HOST=%s): %w", os.Getenv(client.EnvOverrideHost), err)
	}
	e := &Engine{api: api}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, errors.Join(e.explain(err), api.Close())
	}
	return e, nil
}

// Close closes the connection.
func (e *Engine) Close() { _ = e.api.Close() }

// explain makes what the user can do out of a failure to reach the engine.
func (e *Engine) explain(err error) error {
	host := e.api.DaemonHost()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case client.IsErrConnectionFailed(err) && strings.Contains(err.Error(), "permission denied"):
		return &engineError{fmt.Sprintf("ask the Docker engine at %s: permission denied", host), fs.ErrPermission}
	case client.IsErrConnectionFailed(err):
		return &engineError{fmt.Sprintf("no Docker engine answers at %s: start it (systemctl start docker), or name another with DOCKER_HOST", host), nil}
	case errors.Is(err, context.DeadlineExceeded):
		return &engineError{fmt.Sprintf("the Docker engine at %s does not answer: see whether \"docker info\" works", host), nil}
	}
	return fmt.Errorf("ask Docker engine at %s: %w", host, err)
}

// engineError is an ErrNoEngine whose text stands alone.
type engineError struct {
	text  string
	cause error // may be nil
}

func (e *engineError) Error() string        { return e.text }
func (e *engineError) Is(target error) bool { return target == ErrNoEngine }
func (e *engineError) Unwrap() error        { return e.cause }

// findTries bounds how often a container is looked at again because it ended or
// started meanwhile.
const findTries = 3

// Find returns the container with that name or id, of which the first digits
// suffice if no other has the same. ErrNoContainer: there is none.
func (e *Engine) Find(ctx context.Context, name string) (*Container, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for try := 1; ; try++ {
		r, err := e.api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		switch {
		case errdefs.IsNotFound(err):
			return nil, fmt.Errorf("%s: %w", name, ErrNoContainer)
		case err != nil:
			return nil, e.explain(err)
		}
		c := e.describe(ctx, &r.Container)
		if !c.Runs() || c.processIsHere() {
			return c, nil
		}
		if try == findTries {
			return nil, fmt.Errorf("container %s: the engine at %s says process %d, which is no process of it here: run radar where the engine runs (in a container: with --pid=host --cgroupns=host)",
				c.Name, e.api.DaemonHost(), c.PID)
		}
	}
}

// describe turns what the engine says of a container into what is needed of it.
func (e *Engine) describe(ctx context.Context, r *container.InspectResponse) *Container {
	c := &Container{ID: r.ID, Name: strings.TrimPrefix(r.Name, "/")}
	if r.Config != nil {
		c.Labels = r.Config.Labels
	}
	if r.State != nil {
		c.State = string(r.State.Status)
		if r.State.Running {
			c.PID = r.State.Pid
		}
	}
	if r.HostConfig != nil {
		mode := r.HostConfig.NetworkMode
		c.HostNetwork = mode.IsHost()
		if mode.IsContainer() {
			c.Joined = e.nameOf(ctx, mode.ConnectedContainer())
		}
	}
	return c
}

// nameOf is the name of a container, or its id if that cannot be found out.
func (e *Engine) nameOf(ctx context.Context, id string) string {
	r, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return id
	}
	return strings.TrimPrefix(r.Container.Name, "/")
}

// processIsHere reports whether the container's process is one of this machine: the
// engine may run on another, or in another process namespace, and a number that
// means somebody else's process must not be attached.
func (c *Container) processIsHere() bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.PID))
	return err == nil && strings.Contains(string(groups), c.ID)
}

// List returns the containers that have all these labels (KEY or KEY=VALUE),
// those that do not run too if all is set. Containers that end meanwhile are left
// out.
func (e *Engine) List(ctx context.Context, all bool, labels ...string) ([]*Container, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	o := client.ContainerListOptions{All: all, Filters: client.Filters{}}
	if len(labels) > 0 {
		o.Filters.Add("label", labels...)
	}
	listed, err := e.api.ContainerList(ctx, o)
	if err != nil {
		return nil, e.explain(err)
	}
	var found []*Container
	for _, item := range listed.Items {
		c, err := e.Find(ctx, item.ID)
		if errors.Is(err, ErrNoContainer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all || c.Runs() {
			found = append(found, c)
		}
	}
	return found, nil
}

// Network is one network of the engine.
type Network struct {
	ID     string
	Name   string
	Labels map[string]string
	// Bridge is the interface that the network's creator named; "": its driver names it by the ID.
	Bridge string
}

// bridgeOption is how a network's creator names its bridge.
const bridgeOption = "com.docker.network.bridge.name"

// Networks returns the networks of the engine, which takes one question. A bridge that was named by
// whoever made the network is left out of an engine that is reached over a network: one here can have
// the same name.
func (e *Engine) Networks(ctx context.Context) ([]Network, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	listed, err := e.api.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return nil, e.explain(err)
	}
	here := strings.HasPrefix(e.api.DaemonHost(), "unix://")
	var found []Network
	for _, n := range listed.Items {
		if n.Options[bridgeOption] != "" && !here {
			continue
		}
		found = append(found, Network{ID: n.ID, Name: n.Name, Labels: n.Labels, Bridge: n.Options[bridgeOption]})
	}
	return found, nil
}

// Names returns the names of the containers that run, which takes one question
// only.
func (e *Engine) Names(ctx context.Context, labels ...string) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	o := client.ContainerListOptions{Filters: client.Filters{}}
	if len(labels) > 0 {
		o.Filters.Add("label", labels...)
	}
	listed, err := e.api.ContainerList(ctx, o)
	if err != nil {
		return nil, e.explain(err)
	}
	var found []Container
	for _, item := range listed.Items {
		if len(item.Names) > 0 {
			found = append(found, Container{ID: item.ID, Name: strings.TrimPrefix(item.Names[0], "/"), Labels: item.Labels})
		}
	}
	return found, nil
}
