// Command client does with client-go, in protobuf, what a controller does, and
// prints what it sent and got. Two servers are the same if the output is.
//
// Usage: client NAMESPACE, with the server in KUBECONFIG
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Println("client:", err)
		os.Exit(1)
	}
}

// printed prints each request with the types of both bodies.
type printed struct{ http.RoundTripper }

func (p printed) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.RoundTripper.RoundTrip(request)
	if err == nil && !strings.Contains(request.URL.RawQuery, "watch=") {
		sent := request.Header.Get("Content-Type")
		fmt.Println(request.Method, request.URL.Path, sent, response.StatusCode, response.Header.Get("Content-Type"))
	}
	return response, err
}

func show(what string, object any, err error) {
	if err != nil {
		fmt.Printf("%s: %s: %v\n", what, errors.ReasonForError(err), err)
		return
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var shown any
	if err := json.Unmarshal(text, &shown); err != nil {
		panic(err)
	}
	withoutOwners(shown)
	text, _ = json.Marshal(shown)
	fmt.Printf("%s: %s\n", what, text)
}

// withoutOwners removes who owns which field; other tests compare that.
func withoutOwners(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		for _, inner := range value {
			withoutOwners(inner)
		}
	case []any:
		for _, inner := range value {
			withoutOwners(inner)
		}
	}
}

func run(ctx context.Context, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS = -1
	watching, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return printed{next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	before, err := maps.List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	watch, err := watching.CoreV1().ConfigMaps(namespace).Watch(ctx, meta.ListOptions{
		ResourceVersion: before.ResourceVersion, LabelSelector: "app",
	})
	if err != nil {
		return err
	}
	named := func(name string) *core.ConfigMap {
		labels := map[string]string{"app": "client"}
		return &core.ConfigMap{
			ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{"example.com/wait"}},
			Data:       map[string]string{"": "", "key": "value ü"}, BinaryData: map[string][]byte{"b": {0, 255}},
		}
	}
	// An empty key is not valid.
	_, err = maps.Create(ctx, named("a"), meta.CreateOptions{})
	show("invalid", nil, err)
	valid := named("a")
	delete(valid.Data, "")
	created, err := maps.Create(ctx, valid, meta.CreateOptions{FieldManager: "client"})
	show("created", created, err)
	_, err = maps.Create(ctx, valid, meta.CreateOptions{})
	show("again", nil, err)
	stale := created.DeepCopy()
	created.Data["key"] = ""
	created.Immutable = ptr.To(false)
	updated, err := maps.Update(ctx, created, meta.UpdateOptions{})
	show("updated", updated, err)
	_, err = maps.Update(ctx, stale, meta.UpdateOptions{})
	show("stale", nil, err)
	_, err = maps.Get(ctx, "absent", meta.GetOptions{})
	show("absent", nil, err)
	patch := []byte(`{"metadata": {"annotations": {"a": "b"}}}`)
	patched, err := maps.Patch(ctx, "a", types.StrategicMergePatchType, patch, meta.PatchOptions{})
	show("patched", patched, err)
	err = maps.Delete(ctx, "a", meta.DeleteOptions{Preconditions: meta.NewUIDPreconditions("other")})
	show("precondition", nil, err)
	show("deleted", "ok", maps.Delete(ctx, "a", meta.DeleteOptions{PropagationPolicy: ptr.To(meta.DeletePropagationBackground)}))
	patched, err = maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), meta.PatchOptions{})
	show("finalized", patched, err)
	for range 5 {
		select {
		case event := <-watch.ResultChan():
			show("event "+string(event.Type), event.Object, nil)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	watch.Stop()
	if err := workloads(ctx, client, watching, namespace); err != nil {
		return err
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorization.SelfSubjectAccessReview{
		Spec: authorization.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorization.ResourceAttributes{Verb: "get", Resource: "pods"},
		},
	}, meta.CreateOptions{})
	show("allowed", review.Status.Allowed, err)
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	deployments := metadataClient.Resource(apps.SchemeGroupVersion.WithResource("deployments")).Namespace(namespace)
	list, err := deployments.List(ctx, meta.ListOptions{})
	show("metadata", list, err)
	show("collection", "ok", deployments.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{}))
	return nil
}

func workloads(ctx context.Context, client, watching kubernetes.Interface, namespace string) error {
	labels := map[string]string{"app": "client"}
	deployment := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "web", Labels: labels},
		Spec: apps.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Strategy: apps.DeploymentStrategy{
				RollingUpdate: &apps.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromString("50%"))},
			},
			Template: core.PodTemplateSpec{
				ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec:       core.PodSpec{Containers: []core.Container{{Name: "c", Image: "nginx:1.27"}}},
			},
		},
	}
	created, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, meta.CreateOptions{})
	show("deployment", created, err)
	scale, err := client.AppsV1().Deployments(namespace).GetScale(ctx, "web", meta.GetOptions{})
	show("scale", scale, err)
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 3
	scale, err = client.AppsV1().Deployments(namespace).UpdateScale(ctx, "web", scale, meta.UpdateOptions{})
	show("scaled", scale, err)
	created.Status.Replicas = 3
	if created, err = client.AppsV1().Deployments(namespace).Get(ctx, "web", meta.GetOptions{}); err != nil {
		return err
	}
	created.Status.ObservedGeneration = 1
	created, err = client.AppsV1().Deployments(namespace).UpdateStatus(ctx, created, meta.UpdateOptions{})
	show("status", created.Status, err)
	// An informer reads a streaming list, and then a watch.
	factory := informers.NewSharedInformerFactoryWithOptions(watching, 0, informers.WithNamespace(namespace))
	informer := factory.Apps().V1().Deployments().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer has not synced")
	}
	show("cached", informer.GetStore().ListKeys(), nil)
	return nil
}
