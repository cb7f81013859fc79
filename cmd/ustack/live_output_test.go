//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// TestLiveOutputs: what a command prints never gets into what ustack writes, with each command
// and format; nor is anything of it lost.
func TestLiveOutputs(t *testing.T) {
	_, work := workload(t)
	bin := ustackBinary(t)
	for name, formats := range map[string]string{
		"live":                      "text json pprof folded html speedscope perfetto",
		"futex --live":              "text pprof markdown",
		"futex --live --source=bpf": "text pprof",
		"wait":                      "text pprof markdown",
	} {
		for _, format := range strings.Fields(formats) {
			if capturetest.Brief() && format != "text" && format != "pprof" {
				continue
			}
			args := append(strings.Fields(name), "--format="+format, "--", "sh", "-c", `echo "printed 1"; "$0" herd; echo "printed 2"`, work)
			out, messages, code := runFile(t, bin, args)
			if strings.Contains(name, "bpf") && strings.Contains(messages, "this build has no BPF") {
				continue
			}
			if code != 0 || len(out) == 0 || bytes.Contains(out, []byte("printed")) || strings.Count(messages, "printed ") != 2 {
				t.Errorf("%s --format=%s: exit code %d\n%.2000q\n%s", name, format, code, out, messages)
			}
			if format == "speedscope" && !json.Valid(out) {
				t.Errorf("%s: no JSON: %.2000q", name, out)
			}
		}
	}
	// A file of its own leaves standard output to the command.
	for _, name := range []string{"live --format=pprof", "futex --live --format=pprof", "wait --format=pprof", "record"} {
		report := filepath.Join(t.TempDir(), "report")
		args := append(strings.Fields(name), "-o", report, "--", "sh", "-c", `echo "printed 1"; "$0" herd; echo "printed 2"`, work)
		out, messages, code := runFile(t, bin, args)
		if info, err := os.Stat(report); code != 0 || string(out) != "printed 1\nprinted 2\n" || err != nil || info.Size() == 0 {
			t.Errorf("%s: exit code %d, %v\n%s\n%s", name, code, err, out, messages)
		}
	}
}

// runFile runs ustack with a file as its standard output.
func runFile(t *testing.T, bin string, args []string) (out []byte, messages string, code int) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = file, &stderr
	_ = cmd.Run()
	if out, err = os.ReadFile(file.Name()); err != nil {
		t.Fatal(err)
	}
	return out, stderr.String(), cmd.ProcessState.ExitCode()
}

// TestLiveMixed: where both would be one file, nothing is started.
func TestLiveMixed(t *testing.T) {
	needLive(t)
	for _, name := range []string{"live --format=json", "futex --live --format=pprof", "wait --format=html"} {
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(ustackBinary(t), append(strings.Fields(name), "--", "echo", "printed")...)
		cmd.Stdout, cmd.Stderr = file, file
		_ = cmd.Run()
		out, err := os.ReadFile(file.Name())
		if code := cmd.ProcessState.ExitCode(); err != nil || code != exitUsage || !bytes.Contains(out, []byte("with -o FILE")) || bytes.Contains(out, []byte("printed")) {
			t.Errorf("%s: exit code %d, %v\n%s", name, code, err, out)
		}
		file.Close()
	}
}

// TestLiveEmpty: a command that makes no futex call is no success, and no empty file is left.
func TestLiveEmpty(t *testing.T) {
	needLive(t)
	for _, name := range []string{"live", "live --format=folded", "live --format=pprof", "futex --live", "futex --live --format=folded", "wait --format=folded"} {
		report := filepath.Join(t.TempDir(), "report")
		args := append(strings.Fields(name), "-e", "syscalls:sys_enter_kill", "-o", report, "--", "true")
		if name == "wait --format=folded" {
			args = append(strings.Fields(name), "-o", report, "--", "true")
		}
		out, err := exec.Command(ustackBinary(t), args...).CombinedOutput()
		info, serr := os.Stat(report)
		switch {
		case serr == nil && info.Size() == 0:
			t.Errorf("%s leaves an empty file: %v\n%s", name, err, out)
		case err != nil && strings.Contains(string(out), "nothing seen"):
		case strings.HasPrefix(name, "wait") && (serr == nil || err != nil && strings.Contains(string(out), "nothing to write")): // true waits now and then
		default:
			t.Errorf("%s: %v, %v\n%s", name, err, serr, out)
		}
	}
}
