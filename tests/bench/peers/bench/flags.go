// Package bench is the benchmark's protocol, as the Rust crate beside it documents it.
package bench

import (
	"flag"
	"log"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags is what the driver tells a program when it starts it.
type Flags struct {
	// Kind is pods or crs.
	Kind string
	// Expect is how many objects there are.
	Expect int
	// Workers is how many handlers run at a time.
	Workers int
	// Config names the API server and limits no rate.
	Config *rest.Config
}

// Parse reads the command line.
func Parse() Flags {
	var flags Flags
	// controller-runtime registers a flag of this name itself.
	if flag.Lookup("kubeconfig") == nil {
		flag.String("kubeconfig", "", "the API server to use")
	}
	flag.StringVar(&flags.Kind, "kind", "pods", "the kind to retrieve: pods or crs")
	flag.IntVar(&flags.Expect, "expect", 0, "how many objects there are")
	flag.IntVar(&flags.Workers, "workers", 4, "how many handlers run at a time")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", flag.Lookup("kubeconfig").Value.String())
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	flags.Config = config
	return flags
}
