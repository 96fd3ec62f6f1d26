// Package widget is the benchmark's custom resource, typed as a generated API package would be.
package widget

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of Widget.
var GroupVersion = schema.GroupVersion{Group: "bench.kooper.dev", Version: "v1"}

// AddToScheme makes Widget known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Widget is a database somebody wants to have.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec"`
	Status            WidgetStatus `json:"status,omitempty"`
}

// WidgetList is a list of them.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	Image     string            `json:"image"`
	Replicas  int32             `json:"replicas"`
	Paused    bool              `json:"paused,omitempty"`
	Selector  map[string]string `json:"selector,omitempty"`
	Settings  []Setting         `json:"settings,omitempty"`
	Listeners []Listener        `json:"listeners,omitempty"`
	Backup    *Backup           `json:"backup,omitempty"`
}

// Setting is one setting.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Listener is one port.
type Listener struct {
	Name     string `json:"name"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
}

// Backup is how a database is saved.
type Backup struct {
	Schedule      string `json:"schedule"`
	Bucket        string `json:"bucket"`
	RetentionDays int32  `json:"retentionDays"`
}

// WidgetStatus is what is known.
type WidgetStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32       `json:"readyReplicas,omitempty"`
	Endpoint           string      `json:"endpoint,omitempty"`
	Conditions         []Condition `json:"conditions,omitempty"`
}

// Condition is one condition.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime string `json:"lastTransitionTime"`
}
