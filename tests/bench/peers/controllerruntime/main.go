// Command controllerruntime is the peer of controller-runtime: one reconciler that reads from the cache.
package main

import (
	"context"
	"log"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kooper.dev/bench/peers/bench"
	"kooper.dev/bench/peers/widget"
)

func main() {
	flags := bench.Parse()
	tally := bench.NewTally(flags.Expect)
	go tally.Serve()

	ctrl.SetLogger(logr.Discard())
	if err := widget.AddToScheme(scheme.Scheme); err != nil {
		log.Fatal(err)
	}
	// Pods come as protobuf without being asked for.
	manager, err := ctrl.NewManager(flags.Config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		log.Fatal(err)
	}

	kind, handler := pods(manager.GetClient(), tally)
	if flags.Kind == "crs" {
		kind, handler = widgets(manager.GetClient(), tally)
	}
	err = ctrl.NewControllerManagedBy(manager).
		Named("bench").
		For(kind).
		WithOptions(controller.Options{MaxConcurrentReconciles: flags.Workers}).
		Complete(handler)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(manager.Start(context.Background()))
}

func pods(reader client.Reader, tally *bench.Tally) (client.Object, reconcile.Func) {
	return &corev1.Pod{}, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		var pod corev1.Pod
		if err := reader.Get(ctx, request.NamespacedName, &pod); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		tally.Saw(pod.Name, pod.Spec.Containers[0].Image, pod.Annotations)
		return ctrl.Result{}, nil
	}
}

func widgets(reader client.Reader, tally *bench.Tally) (client.Object, reconcile.Func) {
	return &widget.Widget{}, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		var one widget.Widget
		if err := reader.Get(ctx, request.NamespacedName, &one); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		tally.Saw(one.Name, one.Spec.Image, one.Annotations)
		return ctrl.Result{}, nil
	}
}
