package main

import "k8s.io/apimachinery/pkg/runtime"

// DeepCopyInto copies s to out.
func (s *Site) DeepCopyInto(out *Site) {
	*out = *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject copies s.
func (s *Site) DeepCopyObject() runtime.Object {
	out := new(Site)
	s.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies l.
func (l *SiteList) DeepCopyObject() runtime.Object {
	out := &SiteList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
