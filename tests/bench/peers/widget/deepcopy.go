package widget

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies w to out.
func (w *Widget) DeepCopyInto(out *Widget) {
	out.TypeMeta = w.TypeMeta
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec = w.Spec
	out.Spec.Selector = maps.Clone(w.Spec.Selector)
	out.Spec.Settings = slices.Clone(w.Spec.Settings)
	out.Spec.Listeners = slices.Clone(w.Spec.Listeners)
	if w.Spec.Backup != nil {
		backup := *w.Spec.Backup
		out.Spec.Backup = &backup
	}
	out.Status = w.Status
	out.Status.Conditions = slices.Clone(w.Status.Conditions)
}

// DeepCopyObject copies w.
func (w *Widget) DeepCopyObject() runtime.Object {
	out := new(Widget)
	w.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies l.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := &WidgetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
