// Command protobuf writes the table from which kooper-protobuf reads and writes
// the built-in kinds of Kubernetes, and objects that test it.
//
// Usage:
//
//	protobuf table FOLDER OTHER...  writes table.bin and table.txt, with what other tables have besides
//	protobuf sample FILE            writes an object of each kind of a stable version
//	protobuf objects SEED COUNT     prints COUNT random objects of each kind
//
// FOLDER is kooper/protobuf/src/table. table.txt is the table for readers, and
// table.bin the same for the program. The output is the same on each run.
//
// An object is one line: its apiVersion, its kind, its bytes in base64, and its
// JSON, both as a server writes them.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protobuf:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	all := scheme()
	switch {
	case len(arguments) >= 2 && arguments[0] == "table":
		table := tableOf(all)
		for _, path := range arguments[2:] {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			table.add(string(text))
		}
		if err := os.WriteFile(filepath.Join(arguments[1], "table.txt"), []byte(table.text()), 0o644); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(arguments[1], "table.bin"), table.blob(), 0o644)
	case len(arguments) == 2 && arguments[0] == "sample":
		file, err := os.Create(arguments[1])
		if err != nil {
			return err
		}
		defer file.Close()
		out := bufio.NewWriter(file)
		defer out.Flush()
		return writeObjects(out, all, stable(kindsOf(all)), 1, 1)
	case len(arguments) == 3 && arguments[0] == "objects":
		seed, err := strconv.ParseInt(arguments[1], 10, 64)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(arguments[2])
		if err != nil {
			return err
		}
		out := bufio.NewWriter(os.Stdout)
		defer out.Flush()
		return writeObjects(out, all, kindsOf(all), seed, count)
	}
	return fmt.Errorf("usage: protobuf table FOLDER OTHER... | protobuf sample FILE | protobuf objects SEED COUNT")
}
