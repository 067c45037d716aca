package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

// kafkaSeat is a consumer's place in a group.
type kafkaSeat struct {
	Brokers []string `json:"brokers"`
	Topic   string   `json:"topic"`
	// Receipts is the topic that they are sent to.
	Receipts string `json:"receipts"`
	Group    string `json:"group"`
	// Member is the group.instance.id. A new process under the name of the
	// killed one gets its partitions at once; without, the group first waits
	// until the session of the dead has timed out.
	Member string `json:"member"`
}

func (s kafkaSeat) topics() []string { return []string{s.Topic, s.Receipts} }

// openKafka is a member of a consumer group.
func openKafka(a assignment) (source, error) {
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers:               a.Kafka.Brokers,
		Unmarshaler:           kafka.DefaultMarshaler{},
		ConsumerGroup:         a.Kafka.Group,
		OverwriteSaramaConfig: memberConfig(a.Kafka.Member),
	}, watermillLog(a.Verbose))
	if err != nil {
		return source{}, fmt.Errorf("subscribe to Kafka: %w", err)
	}
	publisher, err := newKafkaPublisher(a.Kafka.Brokers, a.Verbose)
	if err != nil {
		return source{}, errors.Join(err, subscriber.Close())
	}
	return source{
		topic: a.Kafka.Topic, subscriber: subscriber, pump: untilEnd,
		receiptsTopic: a.Kafka.Receipts, publisher: publisher,
	}, nil
}

func memberConfig(member string) *sarama.Config {
	config := kafka.DefaultSaramaSubscriberConfig()
	config.Version = kafkaVersion
	// The default is newest: a group would miss what was sent before it existed.
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Group.InstanceId = member
	config.Consumer.Group.Session.Timeout = 6 * time.Second // the least that Kafka takes
	config.Consumer.Group.Heartbeat.Interval = 2 * time.Second
	// The default is 1 s. The consumers here live hardly longer, so after each
	// kill the whole stream would come again.
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	// How long a handler may take before sarama lets go of the partition, and
	// fetches it anew: longer than the guard waits and backs off.
	config.Consumer.MaxProcessingTime = time.Minute
	return config
}

// untilEnd waits for the parent to say stop: the messages do not come from it.
func untilEnd(lines *json.Decoder) error {
	var p parcel
	switch err := lines.Decode(&p); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("wait for the parent: %w", err)
	default:
		return errors.New("the parent has sent a message, although there is a broker for that")
	}
}
