package com.example.wiki;

import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;

/** A wiki with its database. */
@Group("example.com")
@Version("v1")
public class Wiki extends CustomResource<WikiSpec, WikiStatus> implements Namespaced {}
