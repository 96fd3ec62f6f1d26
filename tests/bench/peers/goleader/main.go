// Command goleader leads by client-go's election and says so ten times a second, with the machine's uptime.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the API server to use")
	namespace := flag.String("namespace", "default", "the namespace of the Lease")
	timeout := flag.Duration("timeout", 0, "the longest time for one request; 0: none, as by default")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.Timeout = *timeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: "leader"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprint(os.Getpid())},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: work,
			OnStoppedLeading: func() { log.Fatal("stopped leading") },
		},
	})
}

// work goes on for as long as client-go lets it.
func work(ctx context.Context) {
	for ctx.Err() == nil {
		fmt.Println("leads", uptime())
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// uptime is the machine's clock that no process can set.
func uptime() string {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		log.Fatal(err)
	}
	uptime, _, _ := strings.Cut(string(text), " ")
	return uptime
}
