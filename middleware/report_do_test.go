package once_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"

	once "github.com/watermill-once/watermill-once/middleware"
)

// Do has no broker whose ack a hidden error could ask for: the caller must not
// be told that the work was done.
func TestReport_InDoIsReturned(t *testing.T) {
	t.Parallel()
	s := newSQLiteFake(t)
	g := newGuard(t, s, quick())
	_, err := g.Do(t.Context(), "webhook", "k", func(ctx context.Context, _ *sqlx.Tx) error {
		err := errors.Join(effect(ctx, "k"), once.Report(ctx, errBusiness))
		_ = err // hidden
		return nil
	})
	s.wantEffects(t, 0)
	if !errors.Is(err, errBusiness) {
		t.Errorf("all was rolled back, and Do returns %v", err)
	}
}
