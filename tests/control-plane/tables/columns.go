package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

// recorder collects the columns of each kind instead of printing rows.
type recorder map[string][]meta.TableColumnDefinition

func (r recorder) TableHandler(columns []meta.TableColumnDefinition, printer interface{}) error {
	r[reflect.TypeOf(printer).In(0).Elem().Name()] = columns
	return nil
}

// columns lists the columns of each kind that has more than a name and an age.
func columns(kinds []schema.GroupVersionKind) []string {
	known := recorder{}
	internalversion.AddHandlers(known)
	served := map[string]bool{}
	for _, kind := range kinds {
		if known[kind.Kind] != nil {
			served[kind.Kind] = true
		}
	}
	// Descriptions that several columns share are written once.
	uses := map[string]int{}
	for kind := range served {
		for _, column := range known[kind] {
			uses[column.Description]++
		}
	}
	var shared []string
	for text, count := range uses {
		if count > 1 && text != "" {
			shared = append(shared, text)
		}
	}
	sort.Strings(shared)
	lines := []string{
		"# The columns of `kubectl get`: a kind, and indented below it for each column its type, priority, format,",
		"# name and description. `-` stands for none, and a number for the description with this number above.",
	}
	numbers := map[string]int{}
	for at, text := range shared {
		numbers[text] = at + 1
		lines = append(lines, fmt.Sprintf("%d %s", at+1, quoted(text)))
	}
	var names []string
	for kind := range served {
		names = append(names, kind)
	}
	sort.Strings(names)
	for _, kind := range names {
		lines = append(lines, kind)
		for _, column := range known[kind] {
			format, description := column.Format, "-"
			if format == "" {
				format = "-"
			}
			if number, ok := numbers[column.Description]; ok {
				description = fmt.Sprint(number)
			} else if column.Description != "" {
				description = quoted(column.Description)
			}
			name := strings.ReplaceAll(column.Name, " ", "_")
			lines = append(lines, fmt.Sprintf("  %s %d %s %s %s", column.Type, column.Priority, format, name, description))
		}
	}
	return lines
}

func quoted(text string) string {
	line, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(line)
}
