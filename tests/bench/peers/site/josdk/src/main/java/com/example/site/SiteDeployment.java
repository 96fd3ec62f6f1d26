package com.example.site;

import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.CRUDKubernetesDependentResource;
import java.util.Map;

/** The Deployment of a Site. */
public class SiteDeployment extends CRUDKubernetesDependentResource<Deployment, Site> {
  @Override
  protected Deployment desired(Site site, Context<Site> context) {
    var labels = Map.of("app", "site", "instance", site.getMetadata().getName());
    return new DeploymentBuilder()
        .withNewMetadata()
        .withName(site.getMetadata().getName())
        .withNamespace(site.getMetadata().getNamespace())
        .endMetadata()
        .withNewSpec()
        .withReplicas(site.getSpec().replicas)
        .withNewSelector()
        .withMatchLabels(labels)
        .endSelector()
        .withNewTemplate()
        .withNewMetadata()
        .withLabels(labels)
        .endMetadata()
        .withNewSpec()
        .addNewContainer()
        .withName("main")
        .withImage(site.getSpec().image)
        .endContainer()
        .endSpec()
        .endTemplate()
        .endSpec()
        .build();
  }
}
