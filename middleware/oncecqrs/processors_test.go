package oncecqrs_test

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
)

// The commands and events of the tests.
type (
	placeOrder  struct{ ID string }
	orderPlaced struct{ ID string }
	sendMail    struct{ ID string }
)

// commands adds command handlers; change may be nil.
func (s *service) commands(change func(*cqrs.CommandProcessorConfig), handlers ...cqrs.CommandHandler) {
	s.Helper()
	config := cqrs.CommandProcessorConfig{
		GenerateSubscribeTopic: func(p cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) {
			return p.CommandName, nil
		},
		SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return s.broker, nil
		},
		Marshaler: marshaler(),
	}
	if change != nil {
		change(&config)
	}
	p, err := cqrs.NewCommandProcessorWithConfig(s.router, config)
	if err != nil {
		s.Fatal(err)
	}
	if err := p.AddHandlers(handlers...); err != nil {
		s.Fatal(err)
	}
}

// events adds event handlers; change may be nil.
func (s *service) events(change func(*cqrs.EventProcessorConfig), handlers ...cqrs.EventHandler) {
	s.Helper()
	config := cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(p cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return p.EventName, nil
		},
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return s.broker, nil
		},
		Marshaler: marshaler(),
	}
	if change != nil {
		change(&config)
	}
	p, err := cqrs.NewEventProcessorWithConfig(s.router, config)
	if err != nil {
		s.Fatal(err)
	}
	if err := p.AddHandlers(handlers...); err != nil {
		s.Fatal(err)
	}
}

// group adds a group of event handlers on the topic "events".
func (s *service) group(name string, change func(*cqrs.EventGroupProcessorConfig), handlers ...cqrs.GroupEventHandler) {
	s.Helper()
	config := cqrs.EventGroupProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventGroupProcessorGenerateSubscribeTopicParams) (string, error) {
			return "events", nil
		},
		SubscriberConstructor: func(cqrs.EventGroupProcessorSubscriberConstructorParams) (message.Subscriber, error) {
			return s.broker, nil
		},
		Marshaler: marshaler(),
	}
	if change != nil {
		change(&config)
	}
	p, err := cqrs.NewEventGroupProcessorWithConfig(s.router, config)
	if err != nil {
		s.Fatal(err)
	}
	if err := p.AddHandlersGroup(name, handlers...); err != nil {
		s.Fatal(err)
	}
}

// eventBus is a bus for handlers, as an application builds it.
func (s *service) eventBus() *cqrs.EventBus {
	s.Helper()
	bus, err := cqrs.NewEventBusWithConfig(s.guard.Publisher(s.out), cqrs.EventBusConfig{
		GeneratePublishTopic: func(p cqrs.GenerateEventPublishTopicParams) (string, error) { return p.EventName, nil },
		Marshaler:            marshaler(),
	})
	if err != nil {
		s.Fatal(err)
	}
	return bus
}

func (s *service) commandBus() *cqrs.CommandBus {
	s.Helper()
	bus, err := cqrs.NewCommandBusWithConfig(s.guard.Publisher(s.out), cqrs.CommandBusConfig{
		GeneratePublishTopic: func(p cqrs.CommandBusGeneratePublishTopicParams) (string, error) { return p.CommandName, nil },
		Marshaler:            marshaler(),
	})
	if err != nil {
		s.Fatal(err)
	}
	return bus
}
