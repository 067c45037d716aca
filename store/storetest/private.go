package storetest

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Server is a database server that a test starts for itself, because it needs
// settings that others must not have. It ends with the test.
type Server struct {
	// Port it listens on at 127.0.0.1.
	Port string
	// Dir is its folder.
	Dir string

	t     testing.TB
	owner *syscall.Credential
}

// NewServer makes a folder for a server, owned by account when the test runs as
// root (database servers refuse root), and chooses a port.
func NewServer(t testing.TB, account string) *Server {
	t.Helper()
	// A test's own folder lies in one that the account may not enter.
	dir, err := os.MkdirTemp("", "once-server-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{t: t, Dir: dir}
	if os.Geteuid() == 0 {
		u, err := user.Lookup(account)
		if err != nil {
			t.Fatalf("storetest: a server needs the account %q: %v", account, err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, s.Port, _ = net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	return s
}

func (s *Server) command(name string, args []string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "HOME="+s.Dir, "LC_ALL=C")
	if s.owner != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	}
	return cmd
}

// Prepare runs a command of the server's to its end.
func (s *Server) Prepare(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args).CombinedOutput(); err != nil {
		s.t.Fatalf("storetest: %s: %v\n%s", name, err, out)
	}
}

// Start starts the server and returns when its port is open. It is killed at
// the end of the test.
func (s *Server) Start(name string, args ...string) {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := s.command(name, args)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("storetest: %s: %v", name, err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	Eventually(s.t, 30*time.Second, name+" listens", func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", s.Port), time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Tool finds a program by name, or where a package hides it.
func Tool(t testing.TB, name string, elsewhere ...string) string {
	t.Helper()
	for _, pattern := range elsewhere {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("storetest: %s is not installed; make services installs it", name)
	}
	return path
}
