package main

import (
	"context"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const finalizer = "example.com/site"

// +kubebuilder:rbac:groups=example.com,resources=sites,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=example.com,resources=sites/status,verbs=update
// +kubebuilder:rbac:groups=example.com,resources=sites/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update
type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		if !controllerutil.RemoveFinalizer(&site, finalizer) {
			return ctrl.Result{}, nil
		}
		r.recorder.Eventf(&site, nil, corev1.EventTypeNormal, "CleanedUp", "CleanUp", "nothing is left outside the cluster")
		return ctrl.Result{}, r.Update(ctx, &site)
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		if err := r.Update(ctx, &site); err != nil {
			return ctrl.Result{}, err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"app": "site", "instance": site.Name}
		deployment.Spec.Replicas = &site.Spec.Replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: site.Spec.Image}}
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme())
	})
	if err != nil || site.Status.Available == deployment.Status.AvailableReplicas {
		return ctrl.Result{}, err
	}
	site.Status.Available = deployment.Status.AvailableReplicas
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

func main() {
	ctrl.SetLogger(klog.NewKlogr())
	addToScheme(scheme.Scheme)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection:         true,
		LeaderElectionID:       "site.example.com",
		HealthProbeBindAddress: ":8081",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Site{}).
		Owns(&appsv1.Deployment{}).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorder("site")})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(manager.Start(ctrl.SetupSignalHandler()))
}
