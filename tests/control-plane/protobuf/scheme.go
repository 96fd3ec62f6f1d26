package main

import (
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
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
