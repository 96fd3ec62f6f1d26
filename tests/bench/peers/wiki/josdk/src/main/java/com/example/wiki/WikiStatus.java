package com.example.wiki;

import io.fabric8.kubernetes.api.model.Condition;
import java.util.ArrayList;
import java.util.List;

/** The observed state. */
public class WikiStatus {
  public String url;
  public Long observedGeneration;
  public List<Condition> conditions = new ArrayList<>();
}
