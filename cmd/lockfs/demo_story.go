package main

import "io"

func runDemo(io.Writer) error { return nil }
