// Command tables writes what kube-apiserver knows of its own kinds into tables
// for the embedded API server: the defaults that it fills in, the JSON that its
// types leave out or always write, the columns of `kubectl get`, the names of Go's types, and the order of their members.
//
// Usage: tables FOLDER
//
// FOLDER is kooper/apiserver/src/kinds. Its builtin.txt names the kinds, and its
// schemas.txt the values of enumerations. The output is the same on each run.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime/schema"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
)

const head = "# Written by tests/control-plane/tables from Kubernetes 1.36. Do not edit.\n"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tables FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	extensions.Install(legacyscheme.Scheme)
	aggregator.Install(legacyscheme.Scheme)
	kinds, err := servedKinds(filepath.Join(folder, "builtin.txt"))
	if err != nil {
		return err
	}
	enums, err := enumerations(filepath.Join(folder, "schemas.txt"))
	if err != nil {
		return err
	}
	tables := []struct {
		name  string
		lines []string
	}{
		{"shapes.txt", shapes(kinds)},
		{"defaults.txt", defaults(kinds, enums)},
		{"columns.txt", columns(kinds)},
		{"types.txt", types(kinds)},
		{"orders.txt", orders(kinds)},
	}
	for _, table := range tables {
		text := head + strings.Join(table.lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(folder, table.name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// servedKinds reads the kinds that can be stored: those that can be created and read.
func servedKinds(path string) ([]schema.GroupVersionKind, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var kinds []schema.GroupVersionKind
	var version schema.GroupVersion
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 1:
			if version, err = schema.ParseGroupVersion(words[0]); err != nil {
				return nil, err
			}
		case len(words) > 4 && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "    "):
			if strings.Contains(words[4], "watch") {
				kinds = append(kinds, version.WithKind(words[2]))
			}
		}
	}
	return kinds, nil
}

// enumerations reads the values that OpenAPI lists, by type and property.
func enumerations(path string) (map[string]map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	enums := map[string]map[string][]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		name, definition, _ := strings.Cut(line, " ")
		var parsed struct {
			Properties map[string]struct {
				Enum []string `json:"enum"`
			} `json:"properties"`
		}
		// Enumerations of anything but strings are none that a default depends on.
		if json.Unmarshal([]byte(definition), &parsed) != nil {
			continue
		}
		for property, schema := range parsed.Properties {
			if len(schema.Enum) > 0 {
				if enums[name] == nil {
					enums[name] = map[string][]string{}
				}
				enums[name][property] = schema.Enum
			}
		}
	}
	return enums, nil
}
