package main

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// get sends a file. Not by http.ServeFile, which has its own mind about names.
func get(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open(r.FormValue("path"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := io.Copy(w, f); err != nil {
		panic(http.ErrAbortHandler) // so that the lab sees the break
	}
}

// put makes a file beside its place and renames it there.
func put(w http.ResponseWriter, r *http.Request) {
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 32)
	if err == nil {
		err = store(r.URL.Query().Get("path"), fs.FileMode(mode), r.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func store(path string, mode fs.FileMode, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".put-")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(mode)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
