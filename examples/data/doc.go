// Package data placeholder.
package data
