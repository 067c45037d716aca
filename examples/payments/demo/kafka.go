package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
)

const (
	partitions = 4
	lagPoll    = 100 * time.Millisecond
	// lagErrors is how many polls in a row may fail: a broker that was just
	// started, or that just lost a member, needs a moment for its groups.
	lagErrors = 50
)

// kafkaVersion is that of the protocol. Kafka 4 takes nothing below 2.1, and
// static members came with 2.3.
var kafkaVersion = sarama.V2_8_0_0

// kafkaBroker is a real one. The parent publishes and asks how far the group
// has come; whatever is delivered again, Kafka delivers.
type kafkaBroker struct {
	plan    *plan
	seat    kafkaSeat
	verbose bool
	client  sarama.Client
	admin   sarama.ClusterAdmin
	reader  topicReader // of the receipts
}

// newKafkaBroker makes a topic of that name, which no other run has, and another
// for the receipts.
func newKafkaBroker(p *plan, name string, verbose bool) (*kafkaBroker, error) {
	address, err := serverOf("kafka", "ONCE_TEST_KAFKA")
	if err != nil {
		return nil, err
	}
	b := &kafkaBroker{plan: p, verbose: verbose}
	b.seat = kafkaSeat{Brokers: strings.Split(address, ","), Topic: name, Receipts: name + "_receipts", Group: name, Member: "consumer"}
	config := sarama.NewConfig()
	config.Version = kafkaVersion
	if b.client, err = sarama.NewClient(b.seat.Brokers, config); err != nil {
		return nil, fmt.Errorf("reach Kafka at %s: %w", address, err)
	}
	if b.admin, err = sarama.NewClusterAdminFromClient(b.client); err != nil {
		return nil, errors.Join(fmt.Errorf("reach Kafka's controller: %w", err), b.client.Close())
	}
	b.reader = topicReader{client: b.client, topic: b.seat.Receipts}
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}
	for _, topic := range b.seat.topics() {
		if err := b.admin.CreateTopic(topic, detail, false); err != nil {
			return nil, errors.Join(fmt.Errorf("create topic %q: %w", topic, err), b.close())
		}
	}
	return b, nil
}

func (b *kafkaBroker) assign(a *assignment) { a.Kafka = b.seat }

func (b *kafkaBroker) serve(*process) {}

func (b *kafkaBroker) run(ctx context.Context) error {
	if err := b.publish(ctx); err != nil {
		return err
	}
	return b.consumed(ctx)
}

func (b *kafkaBroker) publish(ctx context.Context) (err error) {
	publisher, err := newKafkaPublisher(b.seat.Brokers, b.verbose)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()
	for sending := range b.plan.sendings {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := publisher.Publish(b.seat.Topic, b.plan.parcel(sending).message()); err != nil {
			return fmt.Errorf("publish to Kafka: %w", err)
		}
	}
	return nil
}

func newKafkaPublisher(brokers []string, verbose bool) (*kafka.Publisher, error) {
	config := kafka.DefaultSaramaSyncPublisherConfig()
	config.Version = kafkaVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers:               brokers,
		Marshaler:             kafka.DefaultMarshaler{},
		OverwriteSaramaConfig: config,
	}, watermillLog(verbose))
	if err != nil {
		return nil, fmt.Errorf("open a publisher: %w", err)
	}
	return publisher, nil
}

// consumed returns when the group has committed the offset behind the last
// message of each partition. The consumers' reports do not tell: an ack that
// was not committed before the kill is no ack to Kafka.
func (b *kafkaBroker) consumed(ctx context.Context) error {
	ticker := time.NewTicker(lagPoll)
	defer ticker.Stop()
	for failed := 0; ; {
		lag, err := b.lag()
		switch {
		case err == nil && lag == 0:
			return nil
		case err == nil:
			failed = 0
		case failed == lagErrors:
			return err
		default:
			failed++
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *kafkaBroker) lag() (int64, error) {
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	committed, err := b.admin.ListConsumerGroupOffsets(b.seat.Group, map[string][]int32{b.seat.Topic: all})
	if err != nil {
		return 0, fmt.Errorf("read the group's offsets: %w", err)
	}
	var lag int64
	for _, partition := range all {
		end, err := b.client.GetOffset(b.seat.Topic, partition, sarama.OffsetNewest)
		if err != nil {
			return 0, fmt.Errorf("read the end of partition %d: %w", partition, err)
		}
		block := committed.GetBlock(b.seat.Topic, partition)
		if block == nil || block.Err != sarama.ErrNoError {
			return 0, fmt.Errorf("read the group's offset in partition %d: no answer", partition)
		}
		lag += end - max(block.Offset, 0) // -1: none yet
	}
	return lag, nil
}

// collect notes the receipts that are in their topic and were not read before.
func (b *kafkaBroker) collect(ctx context.Context, into *receipts) error {
	return b.reader.read(ctx, func(m *sarama.ConsumerMessage) error {
		msg, err := kafka.DefaultMarshaler{}.Unmarshal(m)
		if err != nil {
			return fmt.Errorf("read a receipt: %w", err)
		}
		into.note(receiptOf(msg))
		return nil
	})
}

// close removes topics and group. A static member stays in its group when it
// leaves, so it is removed first. Kafka forgets a group by itself, so that one
// which cannot be removed, or was never joined, is no error.
func (b *kafkaBroker) close() error {
	_, _ = b.admin.RemoveMemberFromConsumerGroup(b.seat.Group, []string{b.seat.Member})
	_ = b.admin.DeleteConsumerGroup(b.seat.Group)
	errs := []error{b.reader.close()}
	for _, topic := range b.seat.topics() {
		if err := b.admin.DeleteTopic(topic); !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, b.admin.Close())...) // and the client under it
}
