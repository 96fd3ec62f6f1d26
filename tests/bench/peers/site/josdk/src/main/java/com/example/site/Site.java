package com.example.site;

import io.fabric8.generator.annotation.Max;
import io.fabric8.generator.annotation.Min;
import io.fabric8.generator.annotation.Required;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;

/** Pods that run an image. */
@Group("example.com")
@Version("v1")
public class Site extends CustomResource<Site.Spec, Site.Status> implements Namespaced {
  public static class Spec {
    @Required public String image;

    @Required
    @Min(0)
    @Max(100)
    public Integer replicas;
  }

  public static class Status {
    public Integer available;
  }
}
