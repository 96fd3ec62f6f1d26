package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	finalizer  = "example.com/wiki"
	ownerLabel = "example.com/owner"
)

// errBlocked is the error of a child that cannot be created yet.
var errBlocked = errors.New("blocked")

// +kubebuilder:rbac:groups=example.com,resources=wikis,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=example.com,resources=wikis/status,verbs=update
// +kubebuilder:rbac:groups=example.com,resources=wikis/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;services,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;update;delete
type reconciler struct {
	client.Client
}

// pass is one reconciliation of a wiki. A slot that is not ready has a reason in unready.
type pass struct {
	*reconciler
	wiki    *Wiki
	unready map[string]string
	first   string
	stalled string
	errs    []error
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	wiki := &Wiki{}
	if err := r.Get(ctx, request.NamespacedName, wiki); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p := &pass{reconciler: r, wiki: wiki, unready: map[string]string{}}
	before := wiki.Status.DeepCopy()
	if !wiki.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, p.delete(ctx, before)
	}
	if controllerutil.AddFinalizer(wiki, finalizer) {
		if err := r.Update(ctx, wiki); err != nil {
			return ctrl.Result{}, err
		}
	}
	wiki.Status.URL = nil
	p.apply(ctx)
	p.setConditions()
	return ctrl.Result{}, errors.Join(append(p.errs, p.writeStatus(ctx, before))...)
}

// apply brings the children to their desired state, in the order of their dependencies.
func (p *pass) apply(ctx context.Context) {
	config := &corev1.ConfigMap{ObjectMeta: p.meta("config")}
	p.child(ctx, "config", config, func() {
		config.Data = map[string]string{"title": p.wiki.Spec.Title}
	})
	password := &corev1.Secret{ObjectMeta: p.meta("password")}
	p.child(ctx, "password", password, func() {
		if password.CreationTimestamp.IsZero() {
			password.StringData = map[string]string{"password": rand.Text()}
		}
	})
	p.applyDatabase(ctx, password)
	p.applyMigration(ctx, config)
	service := &corev1.Service{ObjectMeta: p.meta("")}
	p.child(ctx, "service", service, func() {
		service.Spec.Selector = p.labels("web")
		service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	}, "migration")
	p.applyFront(ctx, service)
}

func (p *pass) applyDatabase(ctx context.Context, password *corev1.Secret) {
	set := &appsv1.StatefulSet{ObjectMeta: p.meta("database")}
	ok := p.child(ctx, "database", set, func() {
		set.Spec.ServiceName = set.Name
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: p.labels("database")}
		set.Spec.Template.Labels = p.labels("database")
		set.Spec.Template.Spec.Containers = []corev1.Container{{
			Name:  "database",
			Image: "postgres:17",
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: password.Name},
			}}},
		}}
	}, "password")
	if !ok {
		return
	}
	wanted, status := *set.Spec.Replicas, set.Status
	switch {
	case status.ObservedGeneration < set.Generation:
		p.wait("database", "the change is not observed")
	case status.ReadyReplicas != wanted || status.Replicas != wanted:
		p.wait("database", fmt.Sprintf("%d of %d are ready", status.ReadyReplicas, wanted))
	case status.CurrentRevision != status.UpdateRevision:
		p.wait("database", "it is being updated")
	}
}

// applyMigration has a Job for each version. The one of the version before is pruned when this one is complete.
func (p *pass) applyMigration(ctx context.Context, config *corev1.ConfigMap) {
	job := &batchv1.Job{ObjectMeta: p.meta("migration-" + p.wiki.Spec.Version)}
	ok := p.child(ctx, "migration", job, func() {
		if !job.CreationTimestamp.IsZero() {
			return
		}
		job.Spec.Template.Labels = p.labels("migration")
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job.Spec.Template.Spec.Containers = []corev1.Container{{
			Name:  "migration",
			Image: "example.com/wiki",
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: config.Name},
			}}},
		}}
	}, "config", "database")
	if !ok {
		return
	}
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobFailed:
			p.stalled = "migration"
			p.wait("migration", cmp.Or(condition.Message, "it has failed"))
			return
		case condition.Type == batchv1.JobComplete:
			p.fail("migration", p.prune(ctx, &batchv1.JobList{}, job.Name))
			return
		}
	}
	p.wait("migration", "it is not complete")
}

func (p *pass) applyFront(ctx context.Context, service *corev1.Service) {
	if p.wiki.Spec.Host == nil {
		p.fail("front", p.prune(ctx, &networkingv1.IngressList{}, ""))
		return
	}
	ingress := &networkingv1.Ingress{ObjectMeta: p.meta("")}
	ok := p.child(ctx, "front", ingress, func() {
		path := networkingv1.HTTPIngressPath{Path: "/", PathType: new(networkingv1.PathTypePrefix)}
		path.Backend.Service = &networkingv1.IngressServiceBackend{
			Name: service.Name,
			Port: networkingv1.ServiceBackendPort{Number: 80},
		}
		rule := networkingv1.IngressRule{Host: *p.wiki.Spec.Host}
		rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}
		ingress.Spec.Rules = []networkingv1.IngressRule{rule}
	}, "service")
	if ok {
		p.wiki.Status.URL = new("http://" + *p.wiki.Spec.Host)
	}
}

// child creates a child if the slots that it needs are ready, or corrects it, unless another owner has it.
func (p *pass) child(ctx context.Context, slot string, child client.Object, mutate func(), needs ...string) bool {
	_, err := controllerutil.CreateOrUpdate(ctx, p.Client, child, func() error {
		exists := child.GetUID() != ""
		if exists && !metav1.IsControlledBy(child, p.wiki) {
			return fmt.Errorf("%T %s is not controlled by this wiki", child, child.GetName())
		}
		for _, need := range needs {
			if _, unready := p.unready[need]; unready && !exists {
				p.wait(slot, "waits for "+need)
				return errBlocked
			}
		}
		mutate()
		labels := child.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[ownerLabel] = string(p.wiki.UID)
		child.SetLabels(labels)
		return controllerutil.SetControllerReference(p.wiki, child, p.Scheme())
	})
	if err != nil && !errors.Is(err, errBlocked) {
		p.fail(slot, err)
	}
	return err == nil
}

// children lists the children of one kind, except the one with this name.
func (p *pass) children(ctx context.Context, list client.ObjectList, but string) (found []client.Object, _ error) {
	labels := client.MatchingLabels{ownerLabel: string(p.wiki.UID)}
	if err := p.List(ctx, list, client.InNamespace(p.wiki.Namespace), labels); err != nil {
		return nil, err
	}
	return found, meta.EachListItem(list, func(item runtime.Object) error {
		if child := item.(client.Object); child.GetName() != but {
			found = append(found, child)
		}
		return nil
	})
}

// prune deletes the children of one kind, except the one with this name.
func (p *pass) prune(ctx context.Context, list client.ObjectList, but string) error {
	children, err := p.children(ctx, list, but)
	for _, child := range children {
		err = errors.Join(err, p.remove(ctx, child))
	}
	return err
}

func (p *pass) remove(ctx context.Context, child client.Object) error {
	if child.GetDeletionTimestamp() != nil {
		return nil
	}
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	return client.IgnoreNotFound(p.Delete(ctx, child, foreground, client.Preconditions{UID: new(child.GetUID())}))
}

// delete deletes the children in the reverse order, and then removes the finalizer.
func (p *pass) delete(ctx context.Context, before *WikiStatus) error {
	waves := [][]client.ObjectList{
		{&networkingv1.IngressList{}}, {&corev1.ServiceList{}}, {&batchv1.JobList{}}, {&appsv1.StatefulSetList{}},
		{&corev1.ConfigMapList{}, &corev1.SecretList{}},
	}
	for _, wave := range waves {
		var left []client.Object
		for _, list := range wave {
			children, err := p.children(ctx, list, "")
			if err != nil {
				return err
			}
			left = append(left, children...)
		}
		for _, child := range left {
			if err := p.remove(ctx, child); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			why := fmt.Sprintf("waits until %T %s is gone", left[0], left[0].GetName())
			p.set("Reconciling", metav1.ConditionTrue, "Deleting", why)
			p.set("Ready", metav1.ConditionFalse, "Deleting", why)
			return p.writeStatus(ctx, before)
		}
	}
	if controllerutil.RemoveFinalizer(p.wiki, finalizer) {
		return p.Update(ctx, p.wiki)
	}
	return nil
}

func (p *pass) meta(part string) metav1.ObjectMeta {
	name := p.wiki.Name
	if part != "" {
		name += "-" + part
	}
	return metav1.ObjectMeta{Name: name, Namespace: p.wiki.Namespace}
}

func (p *pass) labels(part string) map[string]string {
	return map[string]string{"wiki": p.wiki.Name, "part": part}
}

func (p *pass) wait(slot, why string) {
	p.unready[slot] = why
	p.first = cmp.Or(p.first, slot)
}

func (p *pass) fail(slot string, err error) {
	if err != nil {
		p.wait(slot, err.Error())
		p.errs = append(p.errs, fmt.Errorf("%s: %w", slot, err))
	}
}

func (p *pass) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&p.wiki.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: p.wiki.Generation,
	})
}

func (p *pass) setConditions() {
	slot := cmp.Or(p.stalled, p.first)
	why := slot + ": " + p.unready[slot]
	meta.RemoveStatusCondition(&p.wiki.Status.Conditions, "Stalled")
	meta.RemoveStatusCondition(&p.wiki.Status.Conditions, "Reconciling")
	switch {
	case p.stalled != "":
		p.set("Stalled", metav1.ConditionTrue, "ChildFailed", why)
		p.set("Ready", metav1.ConditionFalse, "ChildFailed", why)
	case len(p.errs) > 0:
		p.set("Ready", metav1.ConditionFalse, "SlotFailed", why)
	case slot != "":
		p.set("Reconciling", metav1.ConditionTrue, "ChildNotReady", why)
		p.set("Ready", metav1.ConditionFalse, "ChildNotReady", why)
	default:
		p.set("Ready", metav1.ConditionTrue, "AsDeclared", "all children are ready")
	}
}

func (p *pass) writeStatus(ctx context.Context, before *WikiStatus) error {
	p.wiki.Status.ObservedGeneration = p.wiki.Generation
	if equality.Semantic.DeepEqual(before, &p.wiki.Status) {
		return nil
	}
	return p.Status().Update(ctx, p.wiki)
}

func main() {
	ctrl.SetLogger(klog.NewKlogr())
	addToScheme(scheme.Scheme)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Wiki{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Owns(&corev1.Service{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&batchv1.Job{}).
		Owns(&networkingv1.Ingress{}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(manager.Start(ctrl.SetupSignalHandler()))
}
