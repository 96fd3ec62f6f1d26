//go:build versions

// Command versions prints the table of another version of Kubernetes than that of the
// control plane: of the modules that its go.mod names.
//
// write-tables compiles it once for each version, with the files of protobuf that it shares.
package main

import (
	"fmt"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

func main() {
	all := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		extensions.AddToScheme, extensionsv1beta1.AddToScheme, aggregator.AddToScheme, aggregatorv1beta1.AddToScheme,
		meta.AddMetaToScheme, metav1beta1.AddMetaToScheme, discoveryv2.AddToScheme, discoveryv2beta1.AddToScheme,
	} {
		must(add(all))
	}
	fmt.Print(tableOf(all).text())
}
