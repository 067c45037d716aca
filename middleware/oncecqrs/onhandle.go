package oncecqrs

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	once "github.com/watermill-once/watermill-once/middleware"
)

// OnCommand returns an OnHandle for a command processor that tells the guard of
// the handler's error, whatever becomes of it:
//
//	cqrs.CommandProcessorConfig{
//		AckCommandHandlingErrors: true,
//		OnHandle:                 oncecqrs.OnCommand(nil),
//		…
//	}
//
// AckCommandHandlingErrors turns the error into nil before the guard can see
// it. So without OnCommand what the handler wrote and published until it failed
// commits together with the claim, unless it was a statement that failed, and
// no redelivery makes up for the rest. With it everything is rolled back, no
// claim stays, the message is acked as the option asks for, and the attempt
// ends as [once.Dropped] with the error. A transient error, such as a deadlock,
// is no reason to give up on a command: then the message is nacked in spite of
// the option.
//
// next is the processor's own OnHandle; nil means to call the handler. What
// next returns is what is reported: an error that next itself hides stays
// hidden, unless it calls [once.Report]. Outside of an attempt OnCommand does
// nothing but call next. It is safe for concurrent use if next is.
func OnCommand(next cqrs.CommandProcessorOnHandleFn) cqrs.CommandProcessorOnHandleFn {
	if next == nil {
		next = func(p cqrs.CommandProcessorOnHandleParams) error {
			return p.Handler.Handle(p.Message.Context(), p.Command)
		}
	}
	return func(p cqrs.CommandProcessorOnHandleParams) error {
		ctx := p.Message.Context() // next may give the message another
		return once.Report(ctx, next(p))
	}
}

// OnEvent is [OnCommand] for an event processor. The processor returns every
// error, so it is needed only where something between it and the guard may hide
// one, such as a middleware that was put inside.
func OnEvent(next cqrs.EventProcessorOnHandleFn) cqrs.EventProcessorOnHandleFn {
	if next == nil {
		next = func(p cqrs.EventProcessorOnHandleParams) error {
			return p.Handler.Handle(p.Message.Context(), p.Event)
		}
	}
	return func(p cqrs.EventProcessorOnHandleParams) error {
		ctx := p.Message.Context()
		return once.Report(ctx, next(p))
	}
}

// OnGroupEvent is [OnEvent] for an event group processor. It is called for each
// handler of the group that takes the event. They share one attempt, so the
// error of one rolls back the others' work too.
func OnGroupEvent(next cqrs.EventGroupProcessorOnHandleFn) cqrs.EventGroupProcessorOnHandleFn {
	if next == nil {
		next = func(p cqrs.EventGroupProcessorOnHandleParams) error {
			return p.Handler.Handle(p.Message.Context(), p.Event)
		}
	}
	return func(p cqrs.EventGroupProcessorOnHandleParams) error {
		ctx := p.Message.Context()
		return once.Report(ctx, next(p))
	}
}
