// Package schema has the models that ent is generated from, for the tables of
// schema.sql.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/field"
)

// Account is a row of accounts.
type Account struct{ ent.Schema }

// Entry is a row of ledger.
type Entry struct{ ent.Schema }

// Voucher is a row of vouchers.
type Voucher struct{ ent.Schema }

// Fields of a row.
func (Account) Fields() []ent.Field {
	return []ent.Field{field.Int64("id"), field.Int64("balance")}
}

// Fields of a row.
func (Entry) Fields() []ent.Field {
	return []ent.Field{
		field.String("id"), field.String("message"),
		field.Int64("debited"), field.Int64("credited"), field.Int64("cents"),
	}
}

// Annotations name the table.
func (Entry) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Annotation{Table: "ledger"}}
}

// Fields of a row.
func (Voucher) Fields() []ent.Field {
	return []ent.Field{field.String("id"), field.String("message")}
}
