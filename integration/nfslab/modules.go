package nfslab

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// module is a kernel module, ready to be loaded.
type module struct {
	name string // as in lsmod
	data []byte // the uncompressed ELF file
}

// modules returns the wanted modules and all that they depend on, below a
// kernel's folder of modules, each behind those that it needs. One that the
// kernel has built in is left out; one that is neither there nor built in is
// an error. (Debian's packages carry no modules.dep: depmod makes it when they
// are installed. What it is made from is the "depends" of each module.)
func modules(dir string, wanted []string) ([]module, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if base, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && d.Type().IsRegular() {
			paths[moduleName(base)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	builtin := map[string]bool{}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Fields(string(list)) {
		builtin[moduleName(strings.TrimSuffix(filepath.Base(line), ".ko"))] = true
	}
	var loaded []module
	seen := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		name = moduleName(name)
		if seen[name] || builtin[name] {
			return nil
		}
		seen[name] = true
		path := paths[name]
		if path == "" {
			return fmt.Errorf("nfslab: the kernel has no module %s", name)
		}
		data, err := readModule(path)
		if err != nil {
			return err
		}
		needs, err := moduleDepends(data)
		if err != nil {
			return fmt.Errorf("nfslab: %s: %w", path, err)
		}
		for _, n := range needs {
			if err := add(n); err != nil {
				return err
			}
		}
		loaded = append(loaded, module{name, data})
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// moduleName is the name that the kernel has for a module's file name.
func moduleName(base string) string { return strings.ReplaceAll(base, "-", "_") }

func readModule(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".xz":
		return pipe(data, "xz", "-dc")
	case ".zst":
		return pipe(data, "zstd", "-dc")
	}
	return data, nil
}

// moduleDepends returns the modules that a module says it needs.
func moduleDepends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	info := f.Section(".modinfo")
	if info == nil {
		return nil, fmt.Errorf("no .modinfo")
	}
	text, err := info.Data()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(text), "\x00") {
		if list, ok := strings.CutPrefix(line, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
