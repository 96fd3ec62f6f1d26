package main

import (
	"reflect"
	"sort"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane"
)

// scheme has all kinds that a client of the API meets.
func scheme() *runtime.Scheme {
	all := legacyscheme.Scheme
	extensions.Install(all)
	aggregator.Install(all)
	must(meta.AddMetaToScheme(all))
	must(metav1beta1.AddMetaToScheme(all))
	must(discoveryv2.AddToScheme(all))
	must(discoveryv2beta1.AddToScheme(all))
	return all
}

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
	sort.Slice(kinds, func(i, j int) bool {
		a, b := kinds[i], kinds[j]
		if one, other := a.GroupVersion().String(), b.GroupVersion().String(); one != other {
			return one < other
		}
		return a.Kind < b.Kind
	})
	return kinds
}

// nameOf is what OpenAPI calls a type.
func nameOf(of reflect.Type) string {
	if named, ok := reflect.Zero(of).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return strings.ReplaceAll(of.PkgPath(), "/", ".") + "." + of.Name()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
