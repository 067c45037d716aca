package main

import (
	"log/slog"
	"os"

	"github.com/ThreeDotsLabs/watermill"
)

// setUpLog keeps both processes quiet: that handlers fail and messages are
// delivered again is what the demo is about.
func setUpLog(verbose bool) {
	level := slog.LevelError
	if verbose {
		level = slog.LevelDebug
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
}

// watermillLog is the log for Watermill's router and brokers, which call each
// failure of a handler an error.
func watermillLog(verbose bool) watermill.LoggerAdapter {
	if !verbose {
		return watermill.NopLogger{}
	}
	return watermill.NewSlogLogger(slog.Default())
}
