package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// readBound is how long Kafka may take to hand over what a topic holds.
const readBound = 15 * time.Second

// topicReader reads a topic from its beginning, without a group: nobody shares
// it, and nothing is to be remembered. It is one goroutine's.
type topicReader struct {
	client   sarama.Client
	topic    string
	consumer sarama.Consumer // nil until the first read
	places   []*place
}

// place is how far a partition was read.
type place struct {
	messages sarama.PartitionConsumer
	next     int64
}

// read calls note for each message that was in the topic when it was called and
// that was not read before.
func (r *topicReader) read(ctx context.Context, note func(*sarama.ConsumerMessage) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readBound, fmt.Errorf("topic %q was not read within %s", r.topic, readBound))
	defer cancel()
	if err := r.open(); err != nil {
		return err
	}
	for partition, p := range r.places {
		end, err := r.client.GetOffset(r.topic, int32(partition), sarama.OffsetNewest)
		if err != nil {
			return fmt.Errorf("read the end of %q, partition %d: %w", r.topic, partition, err)
		}
		if err := p.readTo(ctx, end, note); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) readTo(ctx context.Context, end int64, note func(*sarama.ConsumerMessage) error) error {
	for p.next < end {
		select {
		case m := <-p.messages.Messages():
			if err := note(m); err != nil {
				return err
			}
			p.next = m.Offset + 1
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// open does so once. Opening late, when messages were sent, finds the new
// topic's leaders in their places.
func (r *topicReader) open() error {
	if r.consumer != nil {
		return nil
	}
	var err error
	if r.consumer, err = sarama.NewConsumerFromClient(r.client); err != nil {
		return fmt.Errorf("read %q: %w", r.topic, err)
	}
	for partition := range int32(partitions) {
		messages, err := r.consumer.ConsumePartition(r.topic, partition, sarama.OffsetOldest)
		if err != nil {
			return fmt.Errorf("read %q, partition %d: %w", r.topic, partition, err)
		}
		r.places = append(r.places, &place{messages: messages})
	}
	return nil
}

// close leaves the client to its owner.
func (r *topicReader) close() error {
	if r.consumer == nil {
		return nil
	}
	for _, p := range r.places {
		p.messages.AsyncClose() // each waits for its fetch, so all of them together
	}
	var errs []error
	for _, p := range r.places {
		errs = append(errs, p.messages.Close())
	}
	return errors.Join(append(errs, r.consumer.Close())...)
}
