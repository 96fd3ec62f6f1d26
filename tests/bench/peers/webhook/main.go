// Command webhook is the peer of controller-runtime for admission: one function that validates widgets and one that
// fills in a field, without a manager.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kooper.dev/bench/peers/widget"
)

func main() {
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key")
	port := flag.Int("port", 0, "the port on loopback")
	flag.Parse()

	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := widget.AddToScheme(scheme); err != nil {
		log.Fatal(err)
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certificates})
	server.Register("/validate-bench-kooper-dev-v1-widget/check", admission.WithValidator(scheme, checker{}))
	server.Register("/mutate-bench-kooper-dev-v1-widget/fill", admission.WithDefaulter(scheme, filler{}))
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

type checker struct{}

func (checker) ValidateCreate(_ context.Context, new *widget.Widget) (admission.Warnings, error) {
	return nil, check(new)
}

func (checker) ValidateUpdate(_ context.Context, _, new *widget.Widget) (admission.Warnings, error) {
	return nil, check(new)
}

func (checker) ValidateDelete(context.Context, *widget.Widget) (admission.Warnings, error) {
	return nil, nil
}

// check says what is wrong with a widget.
func check(new *widget.Widget) error {
	var wrong field.ErrorList
	if new.Spec.Replicas < 1 || new.Spec.Replicas > 100 {
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "replicas"), new.Spec.Replicas, "must be 1 to 100"))
	}
	for _, listener := range new.Spec.Listeners {
		if listener.Port < 1 || listener.Port > 65535 {
			wrong = append(wrong, field.Invalid(field.NewPath("spec", "listeners"), listener.Port, "is no port"))
		}
	}
	return wrong.ToAggregate()
}

type filler struct{}

// Default saves each widget once a day.
func (filler) Default(_ context.Context, saved *widget.Widget) error {
	if saved.Spec.Backup == nil {
		saved.Spec.Backup = &widget.Backup{Schedule: "0 3 * * *", Bucket: "default", RetentionDays: 7}
	}
	return nil
}
