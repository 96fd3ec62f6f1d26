package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wiki is a wiki with its database.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Wiki struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WikiSpec   `json:"spec"`
	Status            WikiStatus `json:"status,omitempty"`
}

// WikiSpec is the desired state.
type WikiSpec struct {
	Title string `json:"title"`
	// +kubebuilder:validation:Pattern=`^[0-9]+$`
	Version string `json:"version"`
	// Host is where it is reached from outside of the cluster.
	Host *string `json:"host,omitempty"`
}

// WikiStatus is the observed state.
type WikiStatus struct {
	URL                *string            `json:"url,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
}

// WikiList is a list of wikis.
// +kubebuilder:object:root=true
type WikiList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Wiki `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme.AddKnownTypes(version, &Wiki{}, &WikiList{})
	metav1.AddToGroupVersion(scheme, version)
}
