package main

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// table is all messages, and which of them each kind is.
type table struct {
	messages messages
	kinds    []schema.GroupVersionKind
	of       map[schema.GroupVersionKind]string
}

func tableOf(all *runtime.Scheme) table {
	made := table{messages{}, kindsOf(all), map[schema.GroupVersionKind]string{}}
	types := all.AllKnownTypes()
	for _, kind := range made.kinds {
		made.of[kind] = made.messages.visit(types[kind])
	}
	return made
}

func (t table) names() []string {
	var names []string
	for name := range t.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// versions lists the kinds of each group version.
func (t table) versions() ([]string, map[string][]schema.GroupVersionKind) {
	var order []string
	kinds := map[string][]schema.GroupVersionKind{}
	for _, kind := range t.kinds {
		version := kind.GroupVersion().String()
		if kinds[version] == nil {
			order = append(order, version)
		}
		kinds[version] = append(kinds[version], kind)
	}
	return order, kinds
}

// text is the table for readers.
func (t table) text() string {
	var text strings.Builder
	line := func(format string, arguments ...any) { fmt.Fprintf(&text, format+"\n", arguments...) }
	line("# Written by tests/control-plane/write-tables from Kubernetes 1.33 to 1.37. Do not edit.")
	line("# A group version, and indented below it its kinds with their messages. Then a message, and indented below it")
	line("# its fields: number, name in JSON, kind of the value, and how the field is written. Names are without `io.k8s.`,")
	line("# and within a message without its package.")
	order, kinds := t.versions()
	for _, version := range order {
		line("%s", version)
		for _, kind := range kinds[version] {
			line("  %s %s", kind.Kind, short(t.of[kind]))
		}
	}
	line("")
	for _, name := range t.names() {
		line("%s", short(name))
		for _, one := range t.messages[name] {
			line("  %s", one.text(short(name[:strings.LastIndex(name, ".")])))
		}
	}
	return text.String()
}

func short(name string) string { return strings.TrimPrefix(name, "io.k8s.") }

// blob is the table for the program. All numbers are little-endian. It begins
// with the lengths of its sections in bytes, 4 bytes each:
//
//	strings   a length in one byte, and the string
//	messages  package, name: positions in strings; the first field
//	fields    number, kind, flags, 0: a byte each; name; message
//	versions  name; the first kind
//	kinds     name; message
//
// All other numbers have 2 bytes. Messages and versions end with one that only
// says where the fields and kinds end.
func (t table) blob() []byte {
	var strs, messageBytes, fieldBytes, versionBytes, kindBytes []byte
	u16 := func(to []byte, number int) []byte {
		if number > 0xffff {
			panic("the table has become too large for numbers of two bytes")
		}
		return binary.LittleEndian.AppendUint16(to, uint16(number))
	}
	positions := map[string]int{}
	str := func(value string) int {
		if at, known := positions[value]; known {
			return at
		}
		if len(value) > 0xff {
			panic("a name is too long: " + value)
		}
		positions[value] = len(strs)
		strs = append(append(strs, byte(len(value))), value...)
		return positions[value]
	}
	names := t.names()
	index := map[string]int{}
	for at, name := range names {
		index[name] = at
	}
	fields := 0
	for _, name := range names {
		dot := strings.LastIndex(name, ".")
		messageBytes = u16(u16(u16(messageBytes, str(name[:dot])), str(name[dot+1:])), fields)
		for _, one := range t.messages[name] {
			if one.number > 0xff {
				panic(name + " has a number of two bytes")
			}
			kind := -1
			for at, known := range kindNames {
				if known == one.kind {
					kind = at
				}
			}
			if kind < 0 {
				panic("no such kind: " + one.kind)
			}
			flags := 0
			for at, set := range []bool{one.list, one.mapped, one.inline, one.pointer, one.omitted} {
				if set {
					flags |= 1 << at
				}
			}
			fieldBytes = append(fieldBytes, byte(one.number), byte(kind), byte(flags), 0)
			fieldBytes = u16(u16(fieldBytes, str(one.name)), index[one.message])
			fields++
		}
	}
	messageBytes = u16(u16(u16(messageBytes, str("")), str("")), fields)
	order, kinds := t.versions()
	count := 0
	for _, version := range order {
		versionBytes = u16(u16(versionBytes, str(version)), count)
		for _, kind := range kinds[version] {
			kindBytes = u16(u16(kindBytes, str(kind.Kind)), index[t.of[kind]])
			count++
		}
	}
	versionBytes = u16(u16(versionBytes, str("")), count)
	var blob []byte
	sections := [][]byte{strs, messageBytes, fieldBytes, versionBytes, kindBytes}
	for _, section := range sections {
		blob = binary.LittleEndian.AppendUint32(blob, uint32(len(section)))
	}
	for _, section := range sections {
		blob = append(blob, section...)
	}
	return blob
}
