// Package oncecqrs joins the guard of package once with Watermill's CQRS
// component. Most of it needs nothing from here: command, event and event group
// processors are handlers of a router, which [once.Guard.Plugin] guards, and
// buses work inside handlers when they are built over [once.Guard.Publisher]:
//
//	bus, err := cqrs.NewEventBusWithConfig(guard.Publisher(pub), …)
//
// and are given the handler's context: bus.Publish(ctx, event).
//
// What the guard cannot see from where it stands is here:
//
//   - an error that a processor hides: [OnCommand], [OnEvent], [OnGroupEvent];
//   - a failure that request-reply answers instead of returning it:
//     [NewCommandHandler], [NewCommandHandlerWithResult];
//   - messages of a type that a processor ignores: [Handles].
//
// It is a package of its own because the core must not link what CQRS needs
// (protobuf). docs/guarantees.md says what holds with CQRS and what does not.
package oncecqrs
