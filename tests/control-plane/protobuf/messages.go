package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kinds of values, by their number in the blob.
var kindNames = []string{
	"bool", "int32", "int64", "double", "string", "bytes", "message", "time", "microtime", "quantity", "intorstring",
	"json", "strings", "schemaorarray", "schemaorbool", "schemaorstrings",
}

// Types that have a JSON of their own.
var special = map[reflect.Type]string{
	reflect.TypeOf(meta.Time{}):                                      "time",
	reflect.TypeOf(meta.MicroTime{}):                                 "microtime",
	reflect.TypeOf(resource.Quantity{}):                              "quantity",
	reflect.TypeOf(intstr.IntOrString{}):                             "intorstring",
	reflect.TypeOf(runtime.RawExtension{}):                           "json",
	reflect.TypeOf(meta.FieldsV1{}):                                  "json",
	reflect.TypeOf(extensions.JSON{}):                                "json",
	reflect.TypeOf(extensionsv1beta1.JSON{}):                         "json",
	reflect.TypeOf(extensions.JSONSchemaPropsOrArray{}):              "schemaorarray",
	reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrArray{}):       "schemaorarray",
	reflect.TypeOf(extensions.JSONSchemaPropsOrBool{}):               "schemaorbool",
	reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrBool{}):        "schemaorbool",
	reflect.TypeOf(extensions.JSONSchemaPropsOrStringArray{}):        "schemaorstrings",
	reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrStringArray{}): "schemaorstrings",
}

var (
	marshaler    = reflect.TypeOf((*json.Marshaler)(nil)).Elem()
	marshallable = reflect.TypeOf((*runtime.ProtobufMarshaller)(nil)).Elem()
	schemaType   = map[reflect.Type]reflect.Type{
		reflect.TypeOf(extensions.JSONSchemaPropsOrArray{}):              reflect.TypeOf(extensions.JSONSchemaProps{}),
		reflect.TypeOf(extensions.JSONSchemaPropsOrBool{}):               reflect.TypeOf(extensions.JSONSchemaProps{}),
		reflect.TypeOf(extensions.JSONSchemaPropsOrStringArray{}):        reflect.TypeOf(extensions.JSONSchemaProps{}),
		reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrArray{}):       reflect.TypeOf(extensionsv1beta1.JSONSchemaProps{}),
		reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrBool{}):        reflect.TypeOf(extensionsv1beta1.JSONSchemaProps{}),
		reflect.TypeOf(extensionsv1beta1.JSONSchemaPropsOrStringArray{}): reflect.TypeOf(extensionsv1beta1.JSONSchemaProps{}),
	}
)

// field is a member of a message, as its struct tags describe it.
type field struct {
	number int
	// The name in JSON.
	name string
	// The kind of its value, of each item, or of each value of a map.
	kind string
	// The message of the value, if it is one.
	message string

	list, mapped, inline, pointer bool
	// Left out of JSON when it is empty.
	omitted bool
}

// text is a line of the golden file; a message of this package is named without it.
func (f field) text(in string) string {
	var words []string
	for _, flag := range []struct {
		set  bool
		name string
	}{{f.list, "list"}, {f.mapped, "map"}, {f.inline, "inline"}, {f.pointer, "pointer"}, {f.omitted, "omitted"}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	kind := f.kind
	if f.message != "" {
		kind += "(" + strings.TrimPrefix(short(f.message), in+".") + ")"
	}
	name := f.name
	if name == "" {
		name = "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s %s", f.number, name, kind, strings.Join(words, " ")))
}

// messages finds all messages that the kinds lead to.
type messages map[string][]field

func (m messages) visit(of reflect.Type) string {
	name := nameOf(of)
	if _, known := m[name]; known {
		return name
	}
	m[name] = nil
	var fields []field
	for at := 0; at < of.NumField(); at++ {
		if one, ok := m.field(of, of.Field(at)); ok {
			fields = append(fields, one)
		}
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	for at := 1; at < len(fields); at++ {
		if fields[at-1].number == fields[at].number {
			panic(fmt.Sprintf("%s has two fields of number %d", name, fields[at].number))
		}
	}
	m[name] = fields
	return name
}

func (m messages) field(in reflect.Type, of reflect.StructField) (field, bool) {
	where := nameOf(in) + "." + of.Name
	tag := strings.Split(of.Tag.Get("protobuf"), ",")
	name, options, _ := strings.Cut(of.Tag.Get("json"), ",")
	if len(tag) < 2 {
		// Its header is in the envelope.
		if of.Name == "TypeMeta" || name == "-" || !of.IsExported() {
			return field{}, false
		}
		panic(where + " has no number")
	}
	number, err := strconv.Atoi(tag[1])
	must(err)
	if name == "-" {
		panic(where + " is not in JSON")
	}
	one := field{number: number, name: name}
	value := of.Type
	if value.Kind() == reflect.Pointer {
		one.pointer = true
		value = value.Elem()
	}
	switch {
	case isStrings(value):
		one.kind = "strings"
	case value.Kind() == reflect.Map:
		if value.Key().Kind() != reflect.String {
			panic(where + " is a map without strings as keys")
		}
		one.mapped = true
		one.kind, one.message = m.value(where, value.Elem())
	case value.Kind() == reflect.Slice && value.Elem().Kind() != reflect.Uint8:
		one.list = true
		item := value.Elem()
		if item.Kind() == reflect.Pointer {
			item = item.Elem()
		}
		one.kind, one.message = m.value(where, item)
	default:
		one.kind, one.message = m.value(where, value)
	}
	if name == "" {
		if !of.Anonymous || one.kind != "message" || one.pointer || one.list || one.mapped {
			panic(where + " has no name in JSON")
		}
		one.inline = true
	}
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "", "inline":
		case "omitempty":
			// A struct is never empty.
			if one.pointer || one.list || one.mapped || value.Kind() != reflect.Struct {
				one.omitted = true
			}
		case "omitzero":
			if !one.pointer && one.kind != "time" {
				panic(where + " is left out when it is zero")
			}
			one.omitted = true
		default:
			panic(where + " has an unknown option in JSON: " + option)
		}
	}
	return one, true
}

// value is the kind of a value, and its message if it is one.
func (m messages) value(where string, of reflect.Type) (string, string) {
	if kind, ok := special[of]; ok {
		if schema, ok := schemaType[of]; ok {
			return kind, m.visit(schema)
		}
		return kind, ""
	}
	if isStrings(of) {
		return "strings", ""
	}
	if of.Implements(marshaler) || reflect.PointerTo(of).Implements(marshaler) {
		panic(fmt.Sprintf("%s: %s has a JSON of its own", where, of))
	}
	switch of.Kind() {
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.String:
		return of.Kind().String(), ""
	case reflect.Float64:
		return "double", ""
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes", ""
		}
	case reflect.Struct:
		return "message", m.visit(of)
	}
	panic(fmt.Sprintf("%s: %s has no kind", where, of))
}

// isStrings is whether a list of strings is a message of its own.
func isStrings(of reflect.Type) bool {
	return of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.String && reflect.PointerTo(of).Implements(marshallable)
}
