package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies s to out.
func (s *WikiSpec) DeepCopyInto(out *WikiSpec) {
	*out = *s
	if s.Host != nil {
		out.Host = new(string)
		*out.Host = *s.Host
	}
}

// DeepCopyInto copies s to out.
func (s *WikiStatus) DeepCopyInto(out *WikiStatus) {
	*out = *s
	if s.URL != nil {
		out.URL = new(string)
		*out.URL = *s.URL
	}
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		for i := range s.Conditions {
			s.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopy copies s.
func (s *WikiStatus) DeepCopy() *WikiStatus {
	out := new(WikiStatus)
	s.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies w to out.
func (w *Wiki) DeepCopyInto(out *Wiki) {
	*out = *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	w.Spec.DeepCopyInto(&out.Spec)
	w.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject copies w.
func (w *Wiki) DeepCopyObject() runtime.Object {
	out := new(Wiki)
	w.DeepCopyInto(out)
	return out
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
