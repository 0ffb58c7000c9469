// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

func scopeOf(version string) *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: scopeName, Version: cutText(version, mostName)}
}

// Settings say how a collector is reached.
type Settings struct {
	Target  string            // gRPC: HOST:PORT; HTTP: the URL
	TLS     *tls.Config       // nil: none
	Headers map[string]string // of each request
	Gzip    bool
	Timeout time.Duration // of one request
	Agent   string        // who asks
}

// exportMethod is TraceService's (opentelemetry/proto/collector/trace/v1). Its request has the form of TracesData. The
// package that is generated for it would link a gateway for HTTP into radar.
const exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

type overGRPC struct {
	Settings
	conn *grpc.ClientConn
}

// NewGRPC returns a transport by OTLP/gRPC. It connects when it is first used.
func NewGRPC(s Settings) (Transport, error) {
	creds := insecure.NewCredentials()
	if s.TLS != nil {
		creds = credentials.NewTLS(s.TLS)
	}
	// gRPC itself would wait for up to two minutes.
	again := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 20 * time.Second} // the default
	again.Backoff.MaxDelay = mostWait
	// No proxy: packets of the domain to the collector are known by its address.
	options := []grpc.DialOption{grpc.WithTransportCredentials(creds), grpc.WithUserAgent(s.Agent), grpc.WithNoProxy(), grpc.WithConnectParams(again)}
	if s.Gzip {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(grpcgzip.Name)))
	}
	conn, err := grpc.NewClient("dns:///"+s.Target, options...)
	if err != nil {
		return nil, err
	}
	return &overGRPC{s, conn}, nil
}

func (g *overGRPC) Close() { g.conn.Close() }

// retryable are codes of what may succeed later (OTLP, "Failures" of OTLP/gRPC). Of RESOURCE_EXHAUSTED that holds only
// where the collector says when.
var retryable = map[codes.Code]bool{
	codes.Canceled: true, codes.DeadlineExceeded: true, codes.Aborted: true, codes.OutOfRange: true, codes.Unavailable: true, codes.DataLoss: true,
}

// Export implements Transport.
func (g *overGRPC) Export(ctx context.Context, data *tracepb.TracesData) Answer {
	ctx, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(g.Headers))
	var reply emptypb.Empty // keeps what it does not know: all of it
	if err := g.conn.Invoke(ctx, exportMethod, data, &reply); err != nil {
		s := status.Convert(err)
		a := Answer{Err: fmt.Errorf("%v: %s", s.Code(), s.Message()), Retry: retryable[s.Code()]}
		for _, detail := range s.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				a.After, a.Retry = min(info.GetRetryDelay().AsDuration(), mostTried), a.Retry || s.Code() == codes.ResourceExhausted
			}
		}
		return a
	}
	return partial(reply.ProtoReflect().GetUnknown())
}

// partial reads ExportTraceServiceResponse: what of a request was not taken.
func partial(b []byte) (a Answer) {
	success, _ := bytesField(b, 1)
	why, _ := bytesField(success, 2)
	a.Why = string(why)
	for len(success) > 0 {
		number, kind, n := protowire.ConsumeTag(success)
		if n < 0 {
			return a
		}
		success = success[n:]
		if number == 1 && kind == protowire.VarintType {
			a.Rejected, _ = protowire.ConsumeVarint(success)
		}
		if n = protowire.ConsumeFieldValue(number, kind, success); n < 0 {
			return a
		}
		success = success[n:]
	}
	return a
}

// bytesField finds a field of bytes in a message.
func bytesField(b []byte, want protowire.Number) ([]byte, bool) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, false
		}
		b = b[n:]
		if number == want && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(b)
			return value, n >= 0
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, false
		}
		b = b[n:]
	}
	return nil, false
}

type overHTTP struct {
	Settings
	client http.Client
}

// NewHTTP returns a transport by OTLP/HTTP with protobuf.
func NewHTTP(s Settings) Transport {
	h := &overHTTP{Settings: s}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.Proxy = s.TLS, nil // as with gRPC
	h.client = http.Client{Transport: t, Timeout: s.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h
}

func (h *overHTTP) Close() { h.client.CloseIdleConnections() }

// mostReply bounds what is read of an answer.
const mostReply = 64 << 10

// Export implements Transport.
func (h *overHTTP) Export(ctx context.Context, data *tracepb.TracesData) Answer {
	body, err := proto.Marshal(data)
	if err == nil && h.Gzip {
		body, err = zipped(body)
	}
	if err != nil {
		return Answer{Err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Target, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	for name, value := range h.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", h.Agent)
	if h.Gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := h.client.Do(request)
	if err != nil {
		return Answer{Err: errors.Unwrap(err), Retry: true}
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, mostReply))
	if response.StatusCode/100 == 2 {
		return partial(reply) // what cannot be read says nothing of a partial success
	}
	return refused(response, reply, err)
}

// refused is an answer other than 2xx (OTLP, "Failures" of OTLP/HTTP): its body is a Status.
func refused(response *http.Response, reply []byte, readErr error) (a Answer) {
	a.Err = errors.New(response.Status)
	if why, ok := bytesField(reply, 2); ok && readErr == nil && response.Header.Get("Content-Type") == "application/x-protobuf" {
		a.Err = fmt.Errorf("%s: %s", response.Status, cutText(string(why), mostName))
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		a.Retry = true
	}
	after := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
		a.After = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(after); err == nil {
		a.After = max(time.Until(date), 0)
	}
	return a
}

func zipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
