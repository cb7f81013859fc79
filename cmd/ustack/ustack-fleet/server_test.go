package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/clickhouse"
)

// server is a ClickHouse server with a directory of its own, on ports of the loopback device.
type server struct {
	t         testing.TB
	program   string
	dir       string
	http, tcp int
	cmd       *exec.Cmd
}

// needServer returns the path of the server's program. Without USTACK_CLICKHOUSE=must the test
// is skipped: it takes half a minute, and a program that few have.
func needServer(t testing.TB) string {
	t.Helper()
	if os.Getenv("USTACK_CLICKHOUSE") != "must" {
		t.Skip("*** SKIPPED: nothing was shown of ClickHouse. USTACK_CLICKHOUSE=must runs this, with Debian's clickhouse-server; see .ci/clickhouse")
	}
	for _, name := range []string{"clickhouse-server", "/usr/sbin/clickhouse-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no clickhouse-server here: apt-get install clickhouse-server")
	return ""
}

const password = `s3cret:"&\x`

// servers starts n servers, each of which is a shard of the cluster "ustack".
func servers(t testing.TB, n int) (list []*server) {
	t.Helper()
	program := needServer(t)
	for range n {
		list = append(list, &server{t: t, program: program, dir: t.TempDir(), http: freePort(t), tcp: freePort(t)})
	}
	var shards strings.Builder
	for _, s := range list {
		fmt.Fprintf(&shards, "<shard><replica><host>127.0.0.1</host><port>%d</port><user>fleet</user><password><![CDATA[%s]]></password></replica></shard>", s.tcp, password)
	}
	for _, s := range list {
		s.configure(shards.String())
		s.start()
		t.Cleanup(s.kill)
	}
	return list
}

// freePort returns a port that nothing listens on now.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *server) configure(shards string) {
	s.t.Helper()
	writeFile(s.t, filepath.Join(s.dir, "users.xml"), []byte(fmt.Sprintf(`<yandex><profiles><default></default></profiles><quotas><default></default></quotas>
<users><fleet><password><![CDATA[%s]]></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></fleet></users></yandex>`, password)))
	writeFile(s.t, filepath.Join(s.dir, "config.xml"), []byte(fmt.Sprintf(`<yandex><logger><level>warning</level><console>true</console></logger>
<http_port>%d</http_port><tcp_port>%d</tcp_port><listen_host>127.0.0.1</listen_host>
<path>%s/data/</path><tmp_path>%s/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>
<remote_servers><ustack>%s</ustack></remote_servers></yandex>`, s.http, s.tcp, s.dir, s.dir, shards)))
}

// start starts the server and waits until it answers.
func (s *server) start() {
	s.t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	s.cmd = exec.Command(s.program, "--config-file="+filepath.Join(s.dir, "config.xml"))
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	const patience = time.Minute
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/ping", s.http))
		if err == nil {
			answer.Body.Close()
			return
		}
	}
	s.kill()
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.t.Fatalf("the server does not answer: %s", log)
}

// kill kills the server, if it runs.
func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) address() string { return fmt.Sprintf("clickhouse://127.0.0.1:%d", s.http) }

// client returns one that is allowed to do all.
func (s *server) client() *clickhouse.Client {
	s.t.Helper()
	to, err := fleet.ParseAddress(s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	credentials, err := fleet.LoadCredentials("", getenv)
	if err != nil {
		s.t.Fatal(err)
	}
	return clickhouse.New(to, credentials, nil)
}

func getenv(name string) string {
	return map[string]string{"USTACK_CLICKHOUSE_USER": "fleet", "USTACK_CLICKHOUSE_PASSWORD": password}[name]
}

// create creates the tables.
func (s *server) create(args ...string) {
	s.t.Helper()
	statements, _ := ran(s.t, 0, append([]string{"export"}, args...)...)
	for statement := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
		if err := s.client().Exec(context.Background(), strings.TrimSuffix(statement, ";")); err != nil {
			s.t.Fatal(err)
		}
	}
}

// empty removes all rows, so that the next test begins.
func (s *server) empty(suffix string) {
	s.t.Helper()
	for _, t := range remoteTables() {
		if err := s.client().Exec(context.Background(), "TRUNCATE TABLE "+t.name+suffix); err != nil {
			s.t.Fatal(err)
		}
	}
}

// drop removes the tables, so that others can be created.
func (s *server) drop() {
	s.t.Helper()
	for _, table := range remoteTables() {
		if err := s.client().Exec(context.Background(), "DROP TABLE "+table.name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// number returns the answer to a question that has one number.
func (s *server) number(statement string) string {
	s.t.Helper()
	rows, err := s.client().Query(context.Background(), statement)
	if err != nil || len(rows) != 1 || len(rows[0]) != 1 || rows[0][0] == nil {
		s.t.Fatalf("%s: %v, %v", statement, rows, err)
	}
	return *rows[0][0]
}
