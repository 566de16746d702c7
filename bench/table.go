package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

func (s *session) title(text string) { fmt.Fprintf(s.out, "\n== %s\n", text) }

func (s *session) row(format string, cells ...any) { printRow(s.out, format, cells...) }

// printRow prints a line of a table whose columns have fixed widths, so that lines
// can be printed as they come.
func printRow(w io.Writer, format string, cells ...any) {
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf(format, cells...), " "))
}

// figure prints a number that may be missing.
func figure(format string, x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// plain prints a number with three digits or, above 100, with all before the
// point.
func plain(x float64) string {
	if x < 100 {
		return figure("%.3g", x)
	}
	return figure("%.0f", x)
}

// count prints a number of operations in at most seven characters.
func count(n float64) string {
	switch {
	case n >= 1e8:
		return fmt.Sprintf("%.0fM", n/1e6)
	case n >= 1e5:
		return fmt.Sprintf("%.0fk", n/1e3)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}

// duration prints ns with three digits or so.
func duration(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d >= 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	default:
		return d.String()
	}
}
