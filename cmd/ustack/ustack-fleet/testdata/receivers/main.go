// Command receivers receives profiles as real servers do: the OTLP receiver of the OpenTelemetry
// collector, and a server made from the published API of Pyroscope. It prints its addresses, and
// a line for each profile; the Pyroscope refuses each first request with 429. See .ci/profiles.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	factory := otlpreceiver.NewFactory().(xreceiver.Factory)
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr = confignet.AddrConfig{Transport: "tcp", Endpoint: port}
	next, err := xconsumer.NewProfiles(otlp, consumer.WithCapabilities(consumer.Capabilities{}))
	if err != nil {
		return err
	}
	r, err := factory.CreateProfiles(ctx, receivertest.NewNopSettings(component.MustNewType("otlp")), config, next)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("otlp://%s\npyroscope://%s\npyroscope://%[2]s/ingest\n", port, l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /ingest", ingest)
	mux.Handle(pushv1connect.NewPusherServiceHandler(&pyroscope{seen: make(map[string]bool)}))
	return http.Serve(l, mux)
}

// freePort returns an address that nothing listens on now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// otlp prints the waits of profiles.
func otlp(_ context.Context, all pprofile.Profiles) error {
	d := all.Dictionary()
	for _, p := range all.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().All() {
		n, ns := 0, int64(0)
		for _, s := range p.Samples().All() {
			for _, v := range s.Values().All() {
				n++
				ns += v
			}
		}
		fmt.Println("otlp", d.StringTable().At(int(p.SampleType().TypeStrindex())), ns, n)
	}
	return nil
}

// pyroscope prints the waits of profiles.
type pyroscope struct {
	lock sync.Mutex
	seen map[string]bool
}

// Push implements pushv1connect.PusherServiceHandler.
func (p *pyroscope) Push(_ context.Context, request *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, series := range request.Msg.Series {
		for _, s := range series.Samples {
			if !p.seen[s.ID] {
				p.seen[s.ID] = true
				return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("not now"))
			}
			ns, n, err := waits(bytes.NewReader(s.RawProfile))
			if err != nil {
				return nil, connect.NewError(connect.CodeInvalidArgument, err)
			}
			fmt.Println("pyroscope", series.Labels[0].Value, ns, n)
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

// ingest takes a profile as Pyroscope's older API does.
func ingest(w http.ResponseWriter, request *http.Request) {
	q := request.URL.Query()
	ns, n, err := waits(request.Body)
	if err != nil || q.Get("name") == "" || q.Get("format") != "pprof" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	fmt.Println("ingest", q.Get("spyName"), ns, n)
}

// waits returns how long the waits of a profile took, and how many there are.
func waits(r io.Reader) (ns, n int64, err error) {
	parsed, err := profile.Parse(r)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range parsed.Sample {
		n += s.Value[0]
		ns += s.Value[1]
	}
	return ns, n, nil
}
