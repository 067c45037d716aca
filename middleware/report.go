package once

import "context"

// Report tells the guard that the handler failed with err, although what stands
// around the handler may hide it, and returns err. It is for frameworks that
// take errors away before the guard sees them, such as a CQRS command processor
// with AckCommandHandlingErrors, whose OnHandle is the place for it (see package
// oncecqrs):
//
//	OnHandle: func(p cqrs.CommandProcessorOnHandleParams) error {
//		ctx := p.Message.Context()
//		return once.Report(ctx, p.Handler.Handle(ctx, p.Command))
//	}
//
// After an error was reported nothing is committed. When the handler function
// returns nil nevertheless, the message is acknowledged as that asks for
// ([Dropped]), unless the error is transient. Nil, and a context without an
// attempt, change nothing.
func Report(ctx context.Context, err error) error {
	if s, e := scopeOf(ctx); e == nil && err != nil {
		s.report(err)
	}
	return err
}

func (s *scope) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported == nil {
		s.reported = err
	}
}
