// SPDX-License-Identifier: Apache-2.0

package p4test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	p4prog "github.com/vnetradar/radar/p4"
	"github.com/vnetradar/radar/pkg/telemetry/control/p4runtime"
)

// answers are kept for tests that have no switch.
const answers = "../../pkg/telemetry/control/p4runtime/testdata"

// keep writes a message for other tests, if that is asked for.
func keep(t *testing.T, name string, m proto.Message) {
	t.Helper()
	if os.Getenv("RADAR_P4_RECORD") == "" {
		return
	}
	text := "# What BMv2 answered: make p4-test RECORD=1\n" + prototext.MarshalOptions{Multiline: true}.Format(m)
	if err := os.WriteFile(filepath.Join(answers, name), []byte(strings.ReplaceAll(text, ":  ", ": ")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// client speaks P4Runtime with a switch, without radar's controller.
func (n *network) client(s string) p4v1 {
	n.t.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:9559", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.dialer(s)), grpc.WithNoProxy())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return p4v1{p4.NewP4RuntimeClient(conn)}
}

type p4v1 struct{ p4.P4RuntimeClient }

// readAll is all that a switch answers about its tables' entries, the defaults of those without a key, and clone session 500.
func (c p4v1) readAll(ctx context.Context, device uint64) (*p4.ReadResponse, error) {
	session := &p4.PacketReplicationEngineEntry{Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{SessionId: 500}}}
	all := new(p4.ReadResponse)
	for _, e := range []*p4.Entity{
		{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{}}},
		{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 38588090, IsDefaultAction: true}}}, // int.settings
		{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: 42814503, IsDefaultAction: true}}}, // int.reporting
		{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: session}},
	} {
		stream, err := c.Read(ctx, &p4.ReadRequest{DeviceId: device, Entities: []*p4.Entity{e}})
		if err != nil {
			return nil, err
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) || status.Code(err) == codes.NotFound && e.GetPacketReplicationEngineEntry() != nil {
				break
			}
			if err != nil {
				return nil, err
			}
			all.Entities = append(all.Entities, m.GetEntities()...)
		}
	}
	return all, nil
}

// refusals is what the switch answers to entries that are there already, that are not, and that are too many.
func (c p4v1) refusals(t *testing.T, device uint64) proto.Message {
	t.Helper()
	stream, err := c.StreamChannel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := &p4.Uint128{Low: 99}
	if err := stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{DeviceId: device, ElectionId: id}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	program, err := p4runtime.NewProgram(p4prog.Info, p4prog.JSON)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := program.Commands(`table_add int.ingress_ports int.source 9 => 0 1
table_add int.ingress_ports int.source 9 => 0 1
table_add int.ingress_ports int.source 8 => 0 1
mirroring_add 500 3
mirroring_add 500 3
`)
	if err != nil {
		t.Fatal(err)
	}
	request := &p4.WriteRequest{DeviceId: device, ElectionId: id}
	for _, x := range commands {
		request.Updates = append(request.Updates, x.Update)
	}
	request.Updates[2].Type = p4.Update_DELETE
	_, err = c.Write(t.Context(), request)
	if err == nil {
		t.Fatal("the switch refuses nothing")
	}
	return status.Convert(err).Proto()
}
