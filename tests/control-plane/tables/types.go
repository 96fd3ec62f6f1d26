package main

import (
	"encoding/json"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// member is a field of a struct by its name in JSON. Embedded structs are read
// as the members that they bring.
type member struct {
	name    string
	index   []int
	of      reflect.Type
	omitted bool
}

func members(of reflect.Type) []member {
	var found []member
	for at := 0; at < of.NumField(); at++ {
		field := of.Field(at)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" && field.Anonymous {
			if field.Name == "TypeMeta" {
				continue
			}
			for _, inner := range members(field.Type) {
				inner.index = append([]int{at}, inner.index...)
				found = append(found, inner)
			}
			continue
		}
		omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		found = append(found, member{name, []int{at}, field.Type, omitted})
	}
	return found
}

var marshaler = reflect.TypeOf((*json.Marshaler)(nil)).Elem()

// isObject is whether values of a type are JSON objects with these members.
func isObject(of reflect.Type) bool {
	return of.Kind() == reflect.Struct && !of.Implements(marshaler) && !reflect.PointerTo(of).Implements(marshaler)
}

// objectIn is the object type that a member leads to through pointers and lists, if any.
func objectIn(of reflect.Type) (reflect.Type, bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return of, isObject(of)
}

// nameOf is what OpenAPI calls a type.
func nameOf(of reflect.Type) string {
	if named, ok := reflect.Zero(of).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return ""
}

func typeOf(kind schema.GroupVersionKind) reflect.Type {
	object, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		panic(err)
	}
	return reflect.TypeOf(object).Elem()
}

// shapes lists, for each type, the pointers to scalars, which are kept when they
// point to nothing in particular, and the members that are always written.
func shapes(kinds []schema.GroupVersionKind) []string {
	seen := map[string]string{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		name := nameOf(of)
		if _, known := seen[name]; known || name == "" {
			return
		}
		seen[name] = ""
		zero := map[string]json.RawMessage{}
		if text, err := json.Marshal(reflect.Zero(of).Interface()); err == nil {
			_ = json.Unmarshal(text, &zero)
		}
		var words []string
		for _, one := range members(of) {
			if value, written := zero[one.name]; written {
				if isObject(one.of) {
					value = json.RawMessage("{}")
				}
				words = append(words, one.name+"="+string(value))
			} else if one.of.Kind() == reflect.Pointer && !isObject(one.of.Elem()) {
				words = append(words, one.name+"*")
			}
			if inner, ok := objectIn(one.of); ok {
				visit(inner)
			}
			if one.of.Kind() == reflect.Map && isObject(one.of.Elem()) {
				visit(one.of.Elem())
			}
		}
		sort.Strings(words)
		seen[name] = strings.Join(words, " ")
	}
	for _, kind := range kinds {
		visit(typeOf(kind))
	}
	var lines []string
	for name, words := range seen {
		lines = append(lines, strings.TrimSpace(name+" "+words))
	}
	sort.Strings(lines)
	return append([]string{
		"# The JSON of the Go types, one type a line. `name=VALUE` is always written, with VALUE when it is not set;",
		"# `name*` is written when it is set, even to nothing in particular; all else is left out when it is empty.",
	}, lines...)
}

// plainName is what the name of a type would be if nothing was known of it but its schema.
func plainName(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return plainName(of.Elem())
	case reflect.Slice:
		return "[]" + plainName(of.Elem())
	case reflect.Map:
		return "map[string]" + plainName(of.Elem())
	case reflect.Struct:
		name := strings.Split(nameOf(of), ".")
		if len(name) < 2 {
			return of.String()
		}
		return strings.Join(name[len(name)-2:], ".")
	default:
		return of.Kind().String()
	}
}

// embedding is the path of embedded structs that lead to a member.
func embedding(of reflect.Type, index []int) string {
	var names []string
	for _, at := range index[:len(index)-1] {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		field := of.Field(at)
		names = append(names, field.Name)
		of = field.Type
	}
	return strings.Join(names, ".")
}

// described lists the structs within the kinds, one a line, with the words that
// describe has for each; those without words are left out.
func described(kinds []schema.GroupVersionKind, describe func(reflect.Type) []string) []string {
	seen := map[string]bool{}
	var lines []string
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		name := nameOf(of)
		if name == "" || seen[name] {
			return
		}
		seen[name] = true
		if words := describe(of); len(words) > 0 {
			lines = append(lines, name+" "+strings.Join(words, " "))
		}
		for _, one := range members(of) {
			inner := one.of
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			if isObject(inner) {
				visit(inner)
			}
		}
	}
	for _, kind := range kinds {
		visit(typeOf(kind))
	}
	sort.Strings(lines)
	return lines
}

// types lists the members whose Go types have names that their schemas do not
// have, and the embedded structs that members are in.
func types(kinds []schema.GroupVersionKind) []string {
	lines := described(kinds, func(of reflect.Type) []string {
		var words []string
		for _, one := range members(of) {
			goType := one.of
			for goType.Kind() == reflect.Pointer {
				goType = goType.Elem()
			}
			word := one.name
			if within := embedding(of, one.index); within != "" {
				word += "@" + within
			}
			if goType.String() != plainName(goType) {
				word += "=" + goType.String()
			}
			if word != one.name {
				words = append(words, word)
			}
		}
		sort.Strings(words)
		return words
	})
	return append([]string{
		"# The Go types, one a line. `name=TYPE` is a member of a type that its schema does not name;",
		"# `name@STRUCT` is a member of an embedded struct.",
	}, lines...)
}

// orders lists the members in the order of the structs, of types where that is not the alphabetical one.
func orders(kinds []schema.GroupVersionKind) []string {
	lines := described(kinds, func(of reflect.Type) []string {
		var names []string
		for _, one := range members(of) {
			names = append(names, one.name)
		}
		if sort.StringsAreSorted(names) {
			return nil
		}
		return names
	})
	return append([]string{
		"# The members of Go types in the order of the structs, one type a line, where that is not the alphabetical one.",
	}, lines...)
}
