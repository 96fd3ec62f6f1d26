package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// No supported version serves them any more; only clients still have the types.
var unserved = map[string]bool{"autoscaling/v2beta1": true, "autoscaling/v2beta2": true}

// add adds the kinds, messages and fields that the text of another version's table has besides. A field of both is
// written as in this version.
func (t *table) add(text string) {
	kinds, others, _ := strings.Cut(text, "\n\n")
	found := messages{}
	sections(others, func(name string, lines []string) {
		name = "io.k8s." + name
		for _, line := range lines {
			found[name] = append(found[name], parseField(name, line))
		}
		if len(lines) == 0 {
			found[name] = nil
		}
	})
	sections(kinds, func(version string, lines []string) {
		if unserved[version] {
			return
		}
		of, err := schema.ParseGroupVersion(version)
		must(err)
		for _, line := range lines {
			name, message, _ := strings.Cut(line, " ")
			kind := of.WithKind(name)
			if _, known := t.of[kind]; !known {
				t.of[kind] = "io.k8s." + message
				t.kinds = append(t.kinds, kind)
			}
			t.take(found, t.of[kind], map[string]bool{})
		}
	})
	sortKinds(t.kinds)
}

// take adds a message and those of its fields. done are the messages that were added.
func (t *table) take(found messages, name string, done map[string]bool) {
	if done[name] {
		return
	}
	done[name] = true
	known, exists := t.messages[name]
	numbers := map[int]field{}
	for _, one := range known {
		numbers[one.number] = one
	}
	for _, one := range found[name] {
		same, both := numbers[one.number]
		if both && (same.name != one.name || same.kind != one.kind || same.message != one.message) {
			panic(fmt.Sprintf("%s.%s has the number of %s in another version", name, one.name, same.name))
		}
		if !both {
			if exists {
				// Versions without the field have it in no JSON.
				one.omitted = true
				one.pointer = one.pointer || !one.list && !one.mapped
			}
			known = append(known, one)
		}
		if one.message != "" {
			t.take(found, one.message, done)
		}
	}
	sort.Slice(known, func(i, j int) bool { return known[i].number < known[j].number })
	t.messages[name] = known
}

// sections calls with each line that is not indented, and the lines below it.
func sections(text string, each func(string, []string)) {
	var name string
	var lines []string
	for _, line := range append(strings.Split(text, "\n"), "end") {
		if rest, indented := strings.CutPrefix(line, "  "); indented {
			lines = append(lines, rest)
		} else if line != "" && !strings.HasPrefix(line, "#") {
			if name != "" {
				each(name, lines)
			}
			name, lines = line, nil
		}
	}
}

// parseField reads a line that text has written.
func parseField(in, line string) field {
	words := strings.Fields(line)
	number, err := strconv.Atoi(words[0])
	must(err)
	one := field{number: number, name: words[1]}
	if one.name == "-" {
		one.name = ""
	}
	kind, message, isMessage := strings.Cut(strings.TrimSuffix(words[2], ")"), "(")
	one.kind = kind
	if isMessage && strings.Contains(message, ".") {
		one.message = "io.k8s." + message
	} else if isMessage {
		one.message = in[:strings.LastIndex(in, ".")+1] + message
	}
	for _, word := range words[3:] {
		switch word {
		case "list":
			one.list = true
		case "map":
			one.mapped = true
		case "inline":
			one.inline = true
		case "pointer":
			one.pointer = true
		case "omitted":
			one.omitted = true
		default:
			panic("no such word: " + word)
		}
	}
	return one
}
