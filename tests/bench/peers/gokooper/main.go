// Command gokooper is the peer of Go Kooper: one controller, its own retriever and queue.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/spotahome/kooper/v2/controller"
	kooperlog "github.com/spotahome/kooper/v2/log"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"kooper.dev/bench/peers/bench"
	"kooper.dev/bench/peers/widget"
)

func main() {
	flags := bench.Parse()
	tally := bench.NewTally(flags.Expect)
	go tally.Serve()

	lister, err := lister(flags)
	if err != nil {
		log.Fatal(err)
	}
	retriever, err := controller.RetrieverFromListerWatcher(lister)
	if err != nil {
		log.Fatal(err)
	}
	running, err := controller.New(&controller.Config{
		Name:              "bench",
		Handler:           handler(tally),
		Retriever:         retriever,
		Logger:            kooperlog.Dummy,
		ConcurrentWorkers: flags.Workers,
		DisableResync:     true,
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(running.Run(context.Background()))
}

// lister lists and watches the kind: pods as protobuf, custom resources as JSON.
func lister(flags bench.Flags) (cache.ListerWatcher, error) {
	config := rest.CopyConfig(flags.Config)
	resource := "pods"
	switch flags.Kind {
	case "pods":
		config.GroupVersion = &corev1.SchemeGroupVersion
		config.APIPath = "/api"
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	case "crs":
		known := runtime.NewScheme()
		if err := widget.AddToScheme(known); err != nil {
			return nil, err
		}
		resource = "widgets"
		config.GroupVersion = &widget.GroupVersion
		config.APIPath = "/apis"
		config.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	default:
		return nil, fmt.Errorf("no such kind: %s", flags.Kind)
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return cache.NewListWatchFromClient(client, resource, "", fields.Everything()), nil
}

func handler(tally *bench.Tally) controller.Handler {
	return controller.HandlerFunc(func(_ context.Context, object runtime.Object) error {
		switch object := object.(type) {
		case *corev1.Pod:
			tally.Saw(object.Name, object.Spec.Containers[0].Image, object.Annotations)
		case *widget.Widget:
			tally.Saw(object.Name, object.Spec.Image, object.Annotations)
		default:
			return fmt.Errorf("no such kind: %T", object)
		}
		return nil
	})
}
