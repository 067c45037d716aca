package oncecqrs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/components/requestreply"
	"github.com/ThreeDotsLabs/watermill/message"

	once "github.com/watermill-once/watermill-once/middleware"
	"github.com/watermill-once/watermill-once/middleware/oncecqrs"
	"github.com/watermill-once/watermill-once/store"
)

// A reply is an output like any other.
func TestReply_DuplicatesSendItWhenItWasNotSent(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *service) {
		s.out.failNext(1)
		s.answers(s.backend(func(c *requestreply.PubSubBackendConfig) {
			c.ReplyPublishErrorHandler = func(string, *message.Message, error) error {
				t.Error("the handler is told of what happens after it")
				return nil
			}
		}), pay(always(nil)))
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Unsent, once.Duplicate)
		s.wantReplies([2]string{"op1", ""})
		if tried, sent := s.out.messages(); tried[0].UUID != sent[0].UUID {
			t.Error("it was sent under another UUID")
		}
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Unsent, once.Duplicate, once.Duplicate)
		s.wantReplies([2]string{"op1", ""})
		s.wantEffects("1")
	})
}

// Without AckCommandErrors a failure has no reply: it is rolled back with the
// rest, and the redelivery's is the first.
func TestReply_OfAHandlerThatFailsOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.answers(s.backend(nil), pay(first(errBusiness)))
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Failed, once.Processed)
		s.wantReplies([2]string{"op1", ""})
		s.wantEffects("1")
	})
}

// What docs/guarantees.md warns of: the error is hidden in the reply.
func TestW09_AFailureThatIsAnsweredCommitsHalfOfTheWork(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.answers(s.backend(ackErrorReplies), pay(always(errBusiness)))
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Processed)
		s.wantReplies([2]string{"op1", errBusiness.Error()})
		s.wantEffects("1")
	})
}

func TestW09_NewCommandHandlerAnswersAFailureOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		bus := s.eventBus()
		handle := pay(always(errBusiness))
		s.answersOnce(func(ctx context.Context, cmd *placeOrder) (receipt, error) {
			r, err := handle(ctx, cmd)
			return r, errors.Join(bus.Publish(ctx, orderPlaced{cmd.ID}), err)
		})
		s.run()
		s.request("c1", "op1", "1")
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Processed, once.Duplicate)
		s.wantReplies([2]string{"op1", errBusiness.Error()}) // and no event
		s.wantEffects()
		s.wantClaims(1)
	})
}

func TestNewCommandHandler_ATransientErrorIsNoAnswer(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		handle := pay(first(store.WithClass(store.ClassTransient, errBusiness)))
		s.answersOnce(handle)
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.RolledBack, once.Processed)
		s.wantReplies([2]string{"op1", ""})
		s.wantEffects("1")
	})
}

// A statement that fails may be a deadlock, so it is no answer, unless the
// handler itself says that it is.
func TestNewCommandHandler_AFailedStatement(t *testing.T) {
	t.Parallel()
	insert := func(ctx context.Context) error {
		tx, err := once.Tx(ctx)
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO effects (id) VALUES (NULL)`)
		}
		return err
	}
	for name, c := range map[string]struct {
		statement func(ctx context.Context) error
		outcome   once.Outcome
		answered  bool
	}{
		"as it is":               {insert, once.Failed, false},
		"behind a savepoint":     {func(ctx context.Context) error { return once.Savepoint(ctx, insert) }, once.Processed, true},
		"that only found no row": {noRow, once.Processed, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(_ *testing.T, s *service) {
				s.answersOnce(func(ctx context.Context, cmd *placeOrder) (receipt, error) {
					err := write(ctx, cmd.ID)
					if failed := c.statement(ctx); failed != nil {
						err = errBusiness
					}
					return receipt{}, err
				})
				s.router.AddMiddleware(hideErrors) // outside, so that what fails comes once
				s.run()
				s.request("c1", "op1", "1")
				s.wantEffects()
				s.wantOutcomes("pay", c.outcome)
				if c.answered {
					s.wantReplies([2]string{"op1", errBusiness.Error()})
				} else {
					s.wantReplies()
				}
			})
		})
	}
}

func noRow(ctx context.Context) error {
	tx, err := once.Tx(ctx)
	if err != nil {
		return err
	}
	var id string
	return tx.GetContext(ctx, &id, `SELECT id FROM effects WHERE id = 'nobody'`)
}

func TestNewCommandHandler_WithoutAResult(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		b, err := requestreply.NewPubSubBackend(requestreply.PubSubBackendConfig{
			Publisher: s.guard.Publisher(s.out), AckCommandErrors: true,
			SubscriberConstructor:  func(requestreply.PubSubBackendSubscribeParams) (message.Subscriber, error) { return s.replies, nil },
			GeneratePublishTopic:   func(requestreply.PubSubBackendPublishParams) (string, error) { return "replies", nil },
			GenerateSubscribeTopic: func(requestreply.PubSubBackendSubscribeParams) (string, error) { return "replies", nil },
		}, requestreply.BackendPubsubJSONMarshaler[requestreply.NoResult]{})
		if err != nil {
			s.Fatal(err)
		}
		handler := oncecqrs.NewCommandHandler("pay", b, func(ctx context.Context, cmd *placeOrder) error {
			return errors.Join(write(ctx, cmd.ID), errBusiness)
		})
		if err := handler.Handle(t.Context(), &placeOrder{}); err == nil || !strings.Contains(err.Error(), "cqrs.CommandProcessor") {
			t.Errorf("outside of a processor: %v", err)
		}
		outside := cqrs.CtxWithOriginalMessage(t.Context(), message.NewMessage("m", nil))
		if err := handler.Handle(outside, &placeOrder{}); !errors.Is(err, once.ErrNoTx) {
			t.Errorf("outside of an attempt: %v", err)
		}
		s.commands(nil, handler)
		s.run()
		s.request("c1", "op1", "1")
		s.wantEffects()
		s.wantReplies([2]string{"op1", errBusiness.Error()})
	})
}

// Both options that ack a failure, without an answer: a reply is an output too,
// so it is dropped with the rest.
func TestReply_OfACommandThatIsDropped(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		s.commands(ackErrors(oncecqrs.OnCommand(nil)),
			requestreply.NewCommandHandlerWithResult[placeOrder, receipt]("pay", s.backend(nil), pay(always(errBusiness))))
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Dropped)
		s.wantReplies()
		s.wantEffects()
	})
}

// A reply that does not go through the guard tells of work that may yet be
// rolled back, and again of each attempt.
func TestReply_WithoutTheGuardsPublisherComesBeforeTheCommit(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(_ *testing.T, s *service) {
		b := s.backend(func(c *requestreply.PubSubBackendConfig) { c.Publisher = s.out })
		handle := requestreply.NewCommandHandlerWithResult[placeOrder, receipt]("pay", b, pay(always(nil)))
		fail := first(errBusiness) // what comes behind the reply, such as the commit
		s.commands(nil, cqrs.NewCommandHandler("pay", func(ctx context.Context, cmd *placeOrder) error {
			return errors.Join(handle.Handle(ctx, cmd), fail())
		}))
		s.run()
		s.request("c1", "op1", "1")
		s.wantOutcomes("pay", once.Failed, once.Processed)
		s.wantReplies([2]string{"op1", ""}, [2]string{"op1", ""})
		s.wantEffects("1")
	})
}

// What docs/guarantees.md says of keys that are not the message's: the command
// that asks again is a duplicate, and nobody answers it.
func TestReply_AKeyFromThePayloadLeavesTheSecondRequestUnanswered(t *testing.T) {
	t.Parallel()
	s := newService(t, openSQLite(t), once.Config{Key: once.JSONField("ID")})
	s.answers(s.backend(nil), pay(always(nil)))
	s.run()
	s.request("c1", "op1", "1")
	s.request("c2", "op2", "1")
	s.wantOutcomes("pay", once.Processed, once.Duplicate)
	s.wantReplies([2]string{"op1", ""})
}
