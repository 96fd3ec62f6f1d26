package main

import (
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds of each version that are never a body: parameters, and the frame of a watch.
var parameters = map[string]bool{
	"CreateOptions": true, "GetOptions": true, "ListOptions": true, "PatchOptions": true, "UpdateOptions": true,
	"WatchEvent": true,
}

// kindsOf lists the kinds that have an encoding in protobuf, in the order of
// their names; those of the internal versions have none.
func kindsOf(all *runtime.Scheme) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for kind, of := range all.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || parameters[kind.Kind] {
			continue
		}
		if _, ok := reflect.New(of).Interface().(runtime.ProtobufMarshaller); ok {
			kinds = append(kinds, kind)
		}
	}
	sortKinds(kinds)
	return kinds
}

func sortKinds(kinds []schema.GroupVersionKind) {
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i], kinds[j]
		if one, other := a.GroupVersion().String(), b.GroupVersion().String(); one != other {
			return one < other
		}
		return a.Kind < b.Kind
	})
}

// nameOf is what OpenAPI calls a type.
func nameOf(of reflect.Type) string {
	if named, ok := reflect.Zero(of).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	name := strings.ReplaceAll(of.PkgPath(), "/", ".") + "." + of.Name()
	// As later versions call it.
	if rest, ok := strings.CutPrefix(name, "k8s.io."); ok {
		name = "io.k8s." + rest
	}
	return name
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
