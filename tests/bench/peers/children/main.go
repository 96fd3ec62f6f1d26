// Command children is the peer of controller-runtime for declared children: a wiki with six of them, in their order.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	resync := flag.Duration("resync", 0, "how often each wiki is reconciled")
	flag.Parse()
	// The driver ends it by closing its input.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()

	ctrl.SetLogger(logr.Discard())
	addToScheme(scheme.Scheme)
	config := ctrl.GetConfigOrDie()
	config.QPS = -1
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Wiki{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&batchv1.Job{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(&reconciler{manager.GetClient(), *resync})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(manager.Start(context.Background()))
}

type reconciler struct {
	client.Client
	resync time.Duration
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var wiki Wiki
	if err := r.Get(ctx, request.NamespacedName, &wiki); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !wiki.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	waits, err := r.children(ctx, &wiki)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.resync}, r.report(ctx, &wiki, waits)
}

// children applies the children in their order, and returns what the next one waits for.
func (r *reconciler) children(ctx context.Context, wiki *Wiki) (string, error) {
	config := &corev1.ConfigMap{ObjectMeta: r.named(wiki, "config")}
	err := r.apply(ctx, wiki, config, func() {
		config.Data = map[string]string{"title": wiki.Spec.Title}
	})
	if err != nil {
		return "", err
	}
	password := &corev1.Secret{ObjectMeta: r.named(wiki, "password")}
	err = r.apply(ctx, wiki, password, func() {
		if len(password.Data) == 0 {
			password.StringData = map[string]string{"password": "open sesame"}
		}
	})
	if err != nil {
		return "", err
	}

	database := &appsv1.StatefulSet{ObjectMeta: r.named(wiki, "database")}
	err = r.apply(ctx, wiki, database, func() {
		database.Spec.ServiceName = database.Name
		database.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels(wiki, "database")}
		template(&database.Spec.Template, wiki, "database", "postgres:17", corev1.EnvFromSource{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: password.Name}},
		})
	})
	if err != nil {
		return "", err
	}
	if database.Status.ObservedGeneration < database.Generation || database.Status.ReadyReplicas < 1 {
		return "database", nil
	}

	migration := &batchv1.Job{ObjectMeta: r.named(wiki, "migration-"+wiki.Spec.Version)}
	err = r.apply(ctx, wiki, migration, func() {
		template(&migration.Spec.Template, wiki, "migration", "example.com/wiki", corev1.EnvFromSource{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config.Name}},
		})
		migration.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	if err != nil {
		return "", err
	}
	if !isComplete(migration) {
		return "migration", nil
	}

	service := &corev1.Service{ObjectMeta: r.named(wiki, "web")}
	err = r.apply(ctx, wiki, service, func() {
		service.Spec.Selector = labels(wiki, "web")
		service.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}}
	})
	if err != nil {
		return "", err
	}
	front := &networkingv1.Ingress{ObjectMeta: r.named(wiki, "front")}
	return "", r.apply(ctx, wiki, front, func() {
		prefix := networkingv1.PathTypePrefix
		backend := networkingv1.IngressServiceBackend{Name: service.Name, Port: networkingv1.ServiceBackendPort{Number: 80}}
		paths := []networkingv1.HTTPIngressPath{{
			Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{Service: &backend},
		}}
		rule := networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}
		front.Spec.Rules = []networkingv1.IngressRule{{Host: wiki.Spec.Host, IngressRuleValue: rule}}
	})
}

func (r *reconciler) apply(ctx context.Context, wiki *Wiki, child client.Object, change func()) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		change()
		return controllerutil.SetControllerReference(wiki, child, r.Scheme())
	})
	return err
}

// report writes the status if it has changed.
func (r *reconciler) report(ctx context.Context, wiki *Wiki, waits string) error {
	before := wiki.Status.DeepCopy()
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "AsDeclared", Message: "all children are ready",
		ObservedGeneration: wiki.Generation,
	}
	if waits != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "ChildNotReady", "waits for "+waits
	}
	meta.SetStatusCondition(&wiki.Status.Conditions, ready)
	wiki.Status.ObservedGeneration = wiki.Generation
	if equality.Semantic.DeepEqual(before, &wiki.Status) {
		return nil
	}
	return r.Status().Update(ctx, wiki)
}

func (r *reconciler) named(wiki *Wiki, part string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", wiki.Name, part), Namespace: wiki.Namespace}
}

func labels(wiki *Wiki, part string) map[string]string {
	return map[string]string{"wiki": wiki.Name, "part": part}
}

// template sets the fields of a pod template, and keeps those that the API server has filled in.
func template(template *corev1.PodTemplateSpec, wiki *Wiki, part, image string, env corev1.EnvFromSource) {
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for key, value := range labels(wiki, part) {
		template.Labels[key] = value
	}
	if len(template.Spec.Containers) == 0 {
		template.Spec.Containers = make([]corev1.Container, 1)
	}
	container := &template.Spec.Containers[0]
	container.Name, container.Image, container.EnvFrom = part, image, []corev1.EnvFromSource{env}
}

func isComplete(job *batchv1.Job) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobComplete && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
