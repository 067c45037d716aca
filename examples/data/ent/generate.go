// Package ent is generated, for the tables of schema.sql. Its own migrations are
// not used.
package ent

//go:generate go run entgo.io/ent/cmd/ent@v0.14.5 generate ./schema
