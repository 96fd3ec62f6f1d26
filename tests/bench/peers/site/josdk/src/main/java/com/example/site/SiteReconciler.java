package com.example.site;

import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.api.config.LeaderElectionConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;
import java.util.Objects;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Runs a Deployment for each Site. */
@Workflow(dependents = @Dependent(type = SiteDeployment.class))
@ControllerConfiguration(finalizerName = "example.com/site")
public class SiteReconciler implements Reconciler<Site>, Cleaner<Site> {
  private static final Logger LOG = LoggerFactory.getLogger(SiteReconciler.class);

  @Override
  public UpdateControl<Site> reconcile(Site site, Context<Site> context) {
    var deployment = context.getSecondaryResource(Deployment.class).orElseThrow();
    var observed = deployment.getStatus();
    var available = observed == null ? null : observed.getAvailableReplicas();
    var status = site.getStatus();
    if (status != null && Objects.equals(status.available, available)) {
      return UpdateControl.noUpdate();
    }
    site.setStatus(new Site.Status());
    site.getStatus().available = available;
    return UpdateControl.patchStatus(site);
  }

  /** Cleans up outside the cluster. After an error, the object is kept; the cleanup is retried. */
  @Override
  public DeleteControl cleanup(Site site, Context<Site> context) {
    LOG.info("nothing of {} is left outside the cluster", site.getMetadata().getName());
    return DeleteControl.defaultDelete();
  }

  public static void main(String[] args) {
    var election = new LeaderElectionConfiguration("site");
    var operator = new Operator(config -> config.withLeaderElectionConfiguration(election));
    operator.register(new SiteReconciler());
    operator.start();
  }
}
