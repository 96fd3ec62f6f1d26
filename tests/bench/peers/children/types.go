package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wiki is a wiki with its database.
type Wiki struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WikiSpec   `json:"spec"`
	Status            WikiStatus `json:"status,omitempty"`
}

// WikiSpec is the desired state.
type WikiSpec struct {
	Title   string `json:"title"`
	Version string `json:"version"`
	Host    string `json:"host"`
}

// WikiStatus is the observed state.
type WikiStatus struct {
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
}

// WikiList is a list of wikis.
type WikiList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Wiki `json:"items"`
}

// DeepCopyInto copies w to out.
func (w *Wiki) DeepCopyInto(out *Wiki) {
	*out = *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status = *w.Status.DeepCopy()
}

// DeepCopyObject copies w.
func (w *Wiki) DeepCopyObject() runtime.Object {
	out := new(Wiki)
	w.DeepCopyInto(out)
	return out
}

// DeepCopy copies s.
func (s *WikiStatus) DeepCopy() *WikiStatus {
	out := *s
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		for i := range s.Conditions {
			s.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
	return &out
}

// DeepCopyObject copies l.
func (l *WikiList) DeepCopyObject() runtime.Object {
	out := &WikiList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Wiki, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

func addToScheme(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "bench.kooper.dev", Version: "v1"}
	scheme.AddKnownTypes(version, &Wiki{}, &WikiList{})
	metav1.AddToGroupVersion(scheme, version)
}
