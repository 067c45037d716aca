package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/store"
)

// crash is what a child process is to do: it delivers one message, if told so,
// to a handler with one published and one returned output, and kills itself at
// a step.
type crash struct {
	Kind, DSN, Sent string // Sent is the file that stands for the broker
	Step            string
	Deliver         bool
}

// The steps between a commit and the marking of its outputs.
var crashSteps = []string{
	"published, not sent", "published, sent", "returned, not sent", "returned, sent", "acked, not marked", "relayed, not marked",
}

const crashVariable = "ONCE_TEST_CRASH"

// TestB59_AKilledProcessLosesNoOutput kills a process at each step, then lets
// another one go on: with the redelivery that a broker would make, and without
// one, where only the relay is left.
func TestB59_AKilledProcessLosesNoOutput(t *testing.T) {
	t.Parallel()
	for _, kind := range storeKinds() {
		if kind.name == "libpq" || kind.name == "postgres18" {
			continue // the processes differ in nothing that matters here
		}
		for _, step := range crashSteps {
			for _, redelivered := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/redelivered %v", kind.name, step, redelivered), func(t *testing.T) {
					t.Parallel()
					killAndRecover(t, kind, step, redelivered)
				})
			}
		}
	}
}

func killAndRecover(t *testing.T, kind storeKind, step string, redelivered bool) {
	t.Helper()
	c := crash{Kind: kind.name, DSN: kind.fresh(t), Sent: filepath.Join(t.TempDir(), "sent"), Step: step, Deliver: true}
	s, err := kind.dial(c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE effects (id VARCHAR(64) NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	if step == "relayed, not marked" { // there has to be something to relay
		first := c
		first.Step = "published, not sent"
		runCrash(t, first, true)
		c.Deliver = false
	}
	runCrash(t, c, true)
	c.Step, c.Deliver = "", redelivered
	runCrash(t, c, false)

	wantCounts(t, ours{s}, 1, 1, 0)
	text, err := os.ReadFile(c.Sent)
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(sent)
	distinct := slices.Compact(slices.Clone(sent))
	if len(distinct) != 2 {
		t.Errorf("sent %q: want each of the two outputs at least once, always the same", sent)
	}
}

// runCrash runs a child process to its end.
func runCrash(t *testing.T, c crash, killed bool) {
	t.Helper()
	instructions, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0])
	command.Env = append(os.Environ(), crashVariable+"="+string(instructions))
	out, err := command.CombinedOutput()
	status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || killed != (status.Signaled() && status.Signal() == syscall.SIGKILL) || !killed && err != nil {
		t.Fatalf("the process with step %q ended with %v:\n%s", c.Step, err, out)
	}
}

// crashChild is the child's main. It reports whether this process is one.
func crashChild() bool {
	var c crash
	text := os.Getenv(crashVariable)
	if text == "" {
		return false
	}
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (c crash) at(step string) {
	if c.Step == step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (c crash) open() (*store.SQL, error) {
	for _, kind := range storeKinds() {
		if kind.name == c.Kind {
			return kind.dial(c.DSN)
		}
	}
	return nil, fmt.Errorf("no store %q", c.Kind)
}

func (c crash) run() error {
	s, err := c.open()
	if err != nil {
		return err
	}
	config := relayingSoon()
	config.RelayLease = time.Second
	guard, err := once.New(s, config)
	if err != nil {
		return err
	}
	channel := gochannel.NewGoChannel(gochannel.Config{Persistent: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	pub := guard.Publisher(c.broker("published"))
	router.AddPlugin(guard.Plugin)
	router.AddHandler("h", "t", channel, "out", c.broker("returned"), func(msg *message.Message) ([]*message.Message, error) {
		published := message.NewMessageWithContext(msg.Context(), watermill.NewUUID(), []byte("published"))
		return []*message.Message{message.NewMessage(watermill.NewUUID(), []byte("returned"))},
			errors.Join(writeEffect(msg), pub.Publish("published", published))
	})
	if err := errors.Join(guard.Relay(c.broker("published"), "published"), guard.Relay(c.broker("returned"), "out")); err != nil {
		return err
	}
	router.AddMiddleware(c.killWhenAcked)
	go func() { _ = router.Run(context.Background()) }()
	<-router.Running()
	if c.Deliver {
		msg := message.NewMessage("m1", nil)
		if err := channel.Publish("t", msg); err != nil {
			return err
		}
	}
	return errors.Join(c.wait(s), guard.Close(context.Background()), router.Close())
}

// killWhenAcked is for the moment in which the broker has the ack and the store
// does not know yet what was sent.
func (c crash) killWhenAcked(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		go func() {
			select {
			case <-msg.Acked():
				c.at("acked, not marked")
			case <-msg.Nacked():
			}
		}()
		return next(msg)
	}
}

// wait ends when all outputs are marked.
func (c crash) wait(s *store.SQL) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-tick.C {
		b, err := s.Backlog(context.Background())
		if err != nil {
			return err
		}
		claimed := 0
		if err := s.DB().Get(&claimed, "SELECT COUNT(*) FROM once_claims"); err != nil {
			return err
		}
		if claimed == 1 && b.Unsent == 0 {
			return nil
		}
	}
	return errors.New("outputs are left")
}

// fileBroker appends what it gets to a file, which outlives the process.
type fileBroker struct {
	crash
	kind string
}

func (c crash) broker(kind string) *fileBroker { return &fileBroker{crash: c, kind: kind} }

func (b *fileBroker) Publish(_ string, msgs ...*message.Message) error {
	for _, msg := range msgs {
		b.at(b.kind + ", not sent")
		f, err := os.OpenFile(b.Sent, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "%s %s\n", msg.UUID, msg.Payload); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		b.at(b.kind + ", sent")
		if !b.Deliver {
			b.at("relayed, not marked")
		}
	}
	return nil
}

func (*fileBroker) Close() error { return nil }
