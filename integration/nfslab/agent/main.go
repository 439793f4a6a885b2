// Command agent runs in every host of the lab, linked into its first root file
// system. Without arguments it serves the lab's requests by HTTP on port 7000,
// on a network that only the lab's process reaches. As "call" it makes single
// system calls and prints their errors, which no shell does; "agent mount TYPE
// SOURCE DIR DATA" is mount(2).
package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	switch {
	case filepath.Base(os.Args[0]) == "call":
		for _, answer := range call(os.Args[1:]) {
			fmt.Println(answer)
		}
	case len(os.Args) == 6 && os.Args[1] == "mount":
		if err := unix.Mount(os.Args[3], os.Args[4], os.Args[2], 0, os.Args[5]); err != nil {
			fmt.Fprintf(os.Stderr, "mount %s on %s (%s): %v\n", os.Args[3], os.Args[4], os.Args[5], err)
			os.Exit(1)
		}
	case len(os.Args) == 1:
		fmt.Fprintln(os.Stderr, "agent:", serve())
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "agent: arguments %q\n", os.Args[1:])
		os.Exit(2)
	}
}

func serve() error {
	go func() { fmt.Fprintln(os.Stderr, "agent:", serveRPC()) }()
	// Of the agent's network only, not the lab's: nobody there has business here.
	s := &http.Server{Addr: "10.0.2.15:7000", ReadHeaderTimeout: time.Minute}
	http.HandleFunc("GET /state", state)
	http.HandleFunc("POST /run", run)
	http.HandleFunc("POST /start", start)
	http.HandleFunc("POST /call", serveCall)
	http.HandleFunc("GET /file", get)
	http.HandleFunc("PUT /file", put)
	return s.ListenAndServe()
}

// state tells who this is and how far it has come.
func state(w http.ResponseWriter, _ *http.Request) {
	name, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := os.ReadFile("/run/lab-state")
	if err != nil {
		text = []byte("booting")
	}
	fmt.Fprintln(w, name, strings.TrimSpace(string(text)))
}
