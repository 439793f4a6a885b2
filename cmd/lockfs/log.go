package main

import (
	"io"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// logFlags are the flags of a command that logs.
type logFlags struct{ level, format string }

func (f *logFlags) add(flags *pflag.FlagSet) {
	*f = defaultLogFlags
	flags.StringVar(&f.level, "log-level", f.level, "log events of this level and above: debug, info, warning, error")
	flags.StringVar(&f.format, "log-format", f.format, "one line an event: text or json")
}

var defaultLogFlags = logFlags{level: "info", format: "text"}

// logTime is RFC 3339 with the milliseconds that an order of events needs.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// logger returns a logger that writes to w.
func (f *logFlags) logger(w io.Writer) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(w)
	level, err := logrus.ParseLevel(f.level)
	if err != nil {
		return nil, usage("--log-level: %w", err)
	}
	log.SetLevel(level)
	switch f.format {
	case "text":
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: logTime, DisableColors: true})
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: logTime})
	default:
		return nil, usage("--log-format: %q is neither text nor json", f.format)
	}
	return log, nil
}
