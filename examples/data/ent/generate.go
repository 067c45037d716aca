package ent

// The tables are those of schema.sql, so ent's own migrations are not wanted.
//go:generate go run -mod=mod entgo.io/ent/cmd/ent@v0.14.5 generate ./schema
