package com.example.wiki;

import io.fabric8.generator.annotation.Nullable;
import io.fabric8.generator.annotation.Pattern;
import io.fabric8.generator.annotation.Required;

/** The desired state. */
public class WikiSpec {
  @Required public String title;

  @Required
  @Pattern("^[0-9]+$")
  public String version;

  /** Where it is reached from outside of the cluster. */
  @Nullable public String host;
}
