package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"strings"
)

// makeSource writes an archive of a tree of source files: at scale 1 2000
// files of 8 KiB in 100 directories.
func makeSource(path string, scale float64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	files := scaled(2000, scale)
	for i := range files {
		if i%20 == 0 {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("d%d/", i/20), Mode: 0o755}); err != nil {
				return err
			}
		}
		text := strings.Repeat(fmt.Sprintf("/* line of file %6d */\n", i), 8<<10/25)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/f%d.c", i/20, i), Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
	}
	return w.Close()
}

// makeBuild writes a small C program with its Makefile: at scale 1 60 files
// that include 20 headers each.
func makeBuild(dir string, scale float64) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	const headers = 20
	var includes, prototypes, calls strings.Builder
	files := map[string]string{
		"Makefile": "objects = $(patsubst %.c,%.o,$(wildcard *.c))\n" +
			"program: $(objects)\n\tcc -o $@ $(objects)\n" +
			"%.o: %.c $(wildcard *.h)\n\tcc -O0 -c -o $@ $<\n",
	}
	for i := range headers {
		fmt.Fprintf(&includes, "#include \"h%d.h\"\n", i)
		files[fmt.Sprintf("h%d.h", i)] = strings.Repeat(fmt.Sprintf("extern int v%d;\n", i), 100)
	}
	for i := range scaled(60, scale) {
		fmt.Fprintf(&prototypes, "int f%d(void);\n", i)
		fmt.Fprintf(&calls, " + f%d()", i)
		files[fmt.Sprintf("f%d.c", i)] = includes.String() + fmt.Sprintf("int f%d(void) { return %d; }\n", i, i)
	}
	files["main.c"] = prototypes.String() + "int main(void) { return (0" + calls.String() + ") == 0; }\n"
	for name, text := range files {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
