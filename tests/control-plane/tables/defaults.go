package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// fact is a default: the value of a member in an object that lacks it. An empty
// value is a default that does not apply. The condition is another member that is set,
// to this value where one is named.
type fact struct {
	member, value, when, is string
}

func (f fact) String() string {
	value := f.value
	if value == "" {
		value = "-"
	}
	switch {
	case f.when == "":
		return fmt.Sprintf("%s %s", f.member, value)
	case f.is == "":
		return fmt.Sprintf("%s %s if %s", f.member, value, f.when)
	default:
		return fmt.Sprintf("%s %s if %s %s", f.member, value, f.when, f.is)
	}
}

// place is where a type occurs in a kind.
type place struct {
	kind schema.GroupVersionKind
	// The members that lead there.
	path []member
	// The type before it, and its last member.
	parent string
	name   string
}

// defaults finds the defaults by trial: each type of each kind is made where it
// occurs, with nothing in it and then with one member set, and the object is decoded as a
// request is: filled in, converted to the internal version and back. What is
// the same wherever a type occurs is listed below the type; the rest below
// the type's parent and member.
func defaults(kinds []schema.GroupVersionKind, enums map[string]map[string][]string) []string {
	found := map[string][]occurrence{}
	for _, kind := range kinds {
		collect(kind, typeOf(kind), place{kind: kind}, nil, enums, found)
	}
	sections := map[string]map[fact]bool{}
	add := func(section string, one fact) {
		if sections[section] == nil {
			sections[section] = map[fact]bool{}
		}
		sections[section][one] = true
	}
	for name, occurrences := range found {
		for one := range everywhere(occurrences) {
			add(name, one)
		}
		byParent := map[string][]occurrence{}
		for _, here := range occurrences {
			section := here.place.parent + "/" + here.place.name
			byParent[section] = append(byParent[section], here)
		}
		for section, occurrences := range byParent {
			for one := range everywhere(occurrences) {
				if !sections[name][one] {
					add(section, one)
				}
			}
		}
	}
	var names []string
	for name := range sections {
		names = append(names, name)
	}
	sort.Strings(names)
	lines := []string{
		"# The defaults of the built-in kinds: a type, or a type and the member that another type is in, and indented",
		"# below it a member, its default, and on which other member that depends. `-` stands for no default.",
	}
	for _, name := range names {
		lines = append(lines, name)
		lines = append(lines, written(sections[name])...)
	}
	return lines
}

// written lists facts, those that differ by the condition alone on one line.
func written(facts map[fact]bool) []string {
	conditions := map[fact][]string{}
	for one := range facts {
		same := one
		if one.is == "" {
			same.when = ""
			if one.when == "" {
				conditions[fact{one.member, one.value, "", "always"}] = nil
				continue
			}
		}
		conditions[same] = append(conditions[same], one.when)
	}
	var lines []string
	for one, when := range conditions {
		if one.is == "always" {
			one.is = ""
		}
		sort.Strings(when)
		one.when = strings.Join(when, ",")
		lines = append(lines, "  "+one.String())
	}
	sort.Strings(lines)
	return lines
}

type occurrence struct {
	place place
	facts map[fact]bool
}

// everywhere is what all occurrences have in common.
func everywhere(occurrences []occurrence) map[fact]bool {
	common := map[fact]bool{}
	for one := range occurrences[0].facts {
		common[one] = true
	}
	for _, other := range occurrences[1:] {
		for one := range common {
			if !other.facts[one] {
				delete(common, one)
			}
		}
	}
	return common
}

func collect(
	kind schema.GroupVersionKind, of reflect.Type, here place, above []reflect.Type,
	enums map[string]map[string][]string, found map[string][]occurrence,
) {
	for _, other := range above {
		if other == of {
			return
		}
	}
	name := nameOf(of)
	// Metadata is the same for all kinds, and none of its members has a default.
	if strings.HasSuffix(name, ".ObjectMeta") {
		return
	}
	if facts, ok := trials(here, of, enums[name]); ok {
		found[name] = append(found[name], occurrence{here, facts})
	}
	for _, one := range members(of) {
		if inner, ok := objectIn(one.of); ok {
			path := append(append([]member{}, here.path...), one)
			collect(kind, inner, place{kind, path, name, one.name}, append(above, of), enums, found)
		}
	}
}

// trials finds the defaults of a type where it occurs.
func trials(here place, of reflect.Type, enums map[string][]string) (map[fact]bool, bool) {
	before, base, ok := trial(here, func(reflect.Value) {})
	if !ok {
		return nil, false
	}
	facts := map[fact]bool{}
	for name, value := range base {
		if before[name] != value {
			facts[fact{member: name, value: value}] = true
		}
	}
	for _, one := range members(of) {
		var outcomes []map[fact]bool
		var values []string
		for _, candidate := range candidates(one.of, enums[one.name]) {
			set := func(object reflect.Value) { object.FieldByIndex(one.index).Set(candidate) }
			given, after, ok := trial(here, set)
			if !ok {
				continue
			}
			outcome := map[fact]bool{}
			for name := range union(base, after) {
				if name != one.name && after[name] != base[name] && given[name] == before[name] {
					outcome[fact{member: name, value: after[name]}] = true
				}
			}
			outcomes = append(outcomes, outcome)
			values = append(values, given[one.name])
		}
		for at, outcome := range outcomes {
			for result := range outcome {
				result.when = one.name
				if !same(outcomes) {
					result.is = values[at]
				}
				facts[result] = true
			}
		}
	}
	return facts, true
}

func same(outcomes []map[fact]bool) bool {
	for _, other := range outcomes[1:] {
		if !reflect.DeepEqual(outcomes[0], other) {
			return false
		}
	}
	return true
}

func union(left, right map[string]string) map[string]bool {
	all := map[string]bool{}
	for name := range left {
		all[name] = true
	}
	for name := range right {
		all[name] = true
	}
	return all
}

// candidates are the values that a member is set to.
func candidates(of reflect.Type, enum []string) []reflect.Value {
	var values []reflect.Value
	add := func(set func(reflect.Value)) {
		value := reflect.New(of).Elem()
		target := value
		if of.Kind() == reflect.Pointer {
			value.Set(reflect.New(of.Elem()))
			target = value.Elem()
		}
		set(target)
		values = append(values, value)
	}
	pointer := of.Kind() == reflect.Pointer
	held := of
	if pointer {
		held = of.Elem()
	}
	switch held.Kind() {
	case reflect.String:
		for _, value := range enum {
			if value != "" {
				add(func(target reflect.Value) { target.SetString(value) })
			}
		}
	case reflect.Bool:
		add(func(target reflect.Value) { target.SetBool(true) })
		if pointer {
			add(func(reflect.Value) {})
		}
	case reflect.Int32, reflect.Int64:
		// What depends on the number itself is not a fact of the type.
		if pointer {
			add(func(target reflect.Value) { target.SetInt(1) })
			add(func(reflect.Value) {})
		}
	case reflect.Struct:
		if pointer {
			add(func(reflect.Value) {})
		}
	case reflect.Slice:
		add(func(target reflect.Value) { target.Set(reflect.MakeSlice(held, 1, 1)) })
	}
	return values
}

// trial decodes an object with this type made where it occurs. The answers are the
// members before and after.
func trial(here place, set func(reflect.Value)) (before, after map[string]string, ok bool) {
	defer func() {
		// Conversions may fail for an object that validation would reject.
		if recover() != nil {
			ok = false
		}
	}()
	object, err := legacyscheme.Scheme.New(here.kind)
	if err != nil {
		return nil, nil, false
	}
	target := descend(reflect.ValueOf(object).Elem(), here.path, true)
	set(target)
	before = encoded(target)
	legacyscheme.Scheme.Default(object)
	internal := schema.GroupVersion{Group: here.kind.Group, Version: runtime.APIVersionInternal}
	inside, err := legacyscheme.Scheme.ConvertToVersion(object, internal)
	if err != nil {
		return nil, nil, false
	}
	back, err := legacyscheme.Scheme.ConvertToVersion(inside, here.kind.GroupVersion())
	if err != nil {
		return nil, nil, false
	}
	result := descend(reflect.ValueOf(back).Elem(), here.path, false)
	if !result.IsValid() {
		return nil, nil, false
	}
	return before, encoded(result), true
}

// descend finds the value at the end of a path, and makes what is absent if asked to.
func descend(value reflect.Value, path []member, create bool) reflect.Value {
	for _, one := range path {
		value = value.FieldByIndex(one.index)
		for value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice {
			switch {
			case value.Kind() == reflect.Pointer && value.IsNil(), value.Kind() == reflect.Slice && value.Len() == 0:
				if !create {
					return reflect.Value{}
				}
				if value.Kind() == reflect.Pointer {
					value.Set(reflect.New(value.Type().Elem()))
				} else {
					value.Set(reflect.MakeSlice(value.Type(), 1, 1))
				}
			}
			if value.Kind() == reflect.Pointer {
				value = value.Elem()
			} else {
				value = value.Index(0)
			}
		}
	}
	return value
}

// encoded is the JSON of each member but of those that are objects of their own.
func encoded(object reflect.Value) map[string]string {
	texts := map[string]string{}
	for _, one := range members(object.Type()) {
		value := object.FieldByIndex(one.index)
		// Times that are set are the time of now.
		_, isTime := value.Interface().(*meta.Time)
		if isObject(one.of) || isTime || one.omitted && isEmpty(value) {
			continue
		}
		text, err := json.Marshal(value.Interface())
		if err != nil {
			continue
		}
		texts[one.name] = string(text)
	}
	return texts
}

func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}
