package com.example.wiki;

import com.example.wiki.Children.Config;
import com.example.wiki.Children.Database;
import com.example.wiki.Children.Front;
import com.example.wiki.Children.Gone;
import com.example.wiki.Children.HasHost;
import com.example.wiki.Children.IsComplete;
import com.example.wiki.Children.IsReady;
import com.example.wiki.Children.Migration;
import com.example.wiki.Children.Password;
import com.example.wiki.Children.WebService;
import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.ConditionBuilder;
import io.fabric8.kubernetes.api.model.batch.v1.Job;
import io.fabric8.kubernetes.api.model.networking.v1.Ingress;
import io.javaoperatorsdk.operator.AggregatedOperatorException;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.ErrorStatusUpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

@Workflow(
    dependents = {
      @Dependent(name = "config", type = Config.class, deletePostcondition = Gone.class),
      @Dependent(name = "password", type = Password.class, deletePostcondition = Gone.class),
      @Dependent(
          name = "database",
          type = Database.class,
          dependsOn = "password",
          readyPostcondition = IsReady.class,
          deletePostcondition = Gone.class),
      @Dependent(
          name = "migration",
          type = Migration.class,
          dependsOn = {"config", "database"},
          readyPostcondition = IsComplete.class,
          deletePostcondition = Gone.class),
      @Dependent(
          name = "service",
          type = WebService.class,
          dependsOn = "migration",
          deletePostcondition = Gone.class),
      @Dependent(
          name = "front",
          type = Front.class,
          dependsOn = "service",
          reconcilePrecondition = HasHost.class,
          deletePostcondition = Gone.class)
    })
@ControllerConfiguration(finalizerName = "example.com/wiki")
public class WikiReconciler implements Reconciler<Wiki>, Cleaner<Wiki> {

  /** Called after the workflow, if no dependent has failed. */
  @Override
  public UpdateControl<Wiki> reconcile(Wiki wiki, Context<Wiki> context) {
    var workflow =
        context
            .managedWorkflowAndDependentResourceContext()
            .getWorkflowReconcileResult()
            .orElseThrow();
    var status = statusOf(wiki);
    boolean hasFront = !context.getSecondaryResources(Ingress.class).isEmpty();
    var url = hasFront && wiki.getSpec().host != null ? "http://" + wiki.getSpec().host : null;
    var job = Children.jobOf(wiki, context);
    var failure = job.flatMap(IsComplete::failureOf);
    var waiting = workflow.getNotReadyDependents().stream().findFirst();
    List<Condition> conditions;
    if (failure.isPresent()) {
      var why = "migration: " + failure.get();
      conditions =
          List.of(
              condition(wiki, "Stalled", "True", "ChildFailed", why),
              condition(wiki, "Ready", "False", "ChildFailed", why));
    } else if (waiting.isPresent()) {
      var reason = workflow.getNotReadyDependentResult(waiting.get(), String.class);
      var why = waiting.get().name() + ": " + reason.orElse("it is not ready");
      conditions =
          List.of(
              condition(wiki, "Reconciling", "True", "ChildNotReady", why),
              condition(wiki, "Ready", "False", "ChildNotReady", why));
    } else {
      // The Jobs of the versions before are pruned when that of this version is complete.
      for (var old : context.getSecondaryResources(Job.class)) {
        if (!old.getMetadata().getName().equals(Children.jobName(wiki))) {
          Children.delete(old, context);
        }
      }
      conditions =
          List.of(condition(wiki, "Ready", "True", "AsDeclared", "all children are ready"));
    }
    if (conditions.equals(status.conditions) && Objects.equals(url, status.url)) {
      return UpdateControl.noUpdate();
    }
    status.url = url;
    setConditions(wiki, status, conditions);
    return UpdateControl.patchStatus(wiki);
  }

  /** Called if a dependent has failed; it is retried afterwards. */
  @Override
  public ErrorStatusUpdateControl<Wiki> updateErrorStatus(
      Wiki wiki, Context<Wiki> context, Exception error) {
    var status = statusOf(wiki);
    var message = String.valueOf(error.getMessage());
    if (error instanceof AggregatedOperatorException workflow) {
      var first = workflow.getAggregatedExceptions().entrySet().iterator().next();
      message = first.getKey() + ": " + first.getValue().getMessage();
    }
    setConditions(
        wiki, status, List.of(condition(wiki, "Ready", "False", "SlotFailed", message)));
    return ErrorStatusUpdateControl.patchStatus(wiki);
  }

  /** Called after each wave of deletions. The finalizer is removed when all dependents are gone. */
  @Override
  public DeleteControl cleanup(Wiki wiki, Context<Wiki> context) {
    var workflow =
        context
            .managedWorkflowAndDependentResourceContext()
            .getWorkflowCleanupResult()
            .orElseThrow();
    if (workflow.allPostConditionsMet()) {
      return DeleteControl.defaultDelete();
    }
    var left = workflow.getPostConditionNotMetDependents().get(0).name();
    var conditions = new ArrayList<Condition>();
    var why = "waits until " + left + " is gone";
    conditions.add(condition(wiki, "Reconciling", "True", "Deleting", why));
    conditions.add(condition(wiki, "Ready", "False", "Deleting", why));
    var status = statusOf(wiki);
    if (!conditions.equals(status.conditions)) {
      setConditions(wiki, status, conditions);
      wiki.getMetadata().setManagedFields(null);
      context.getClient().resource(wiki).patchStatus();
    }
    return DeleteControl.noFinalizerRemoval();
  }

  private static WikiStatus statusOf(Wiki wiki) {
    if (wiki.getStatus() == null) {
      wiki.setStatus(new WikiStatus());
    }
    return wiki.getStatus();
  }

  private static void setConditions(Wiki wiki, WikiStatus status, List<Condition> conditions) {
    status.conditions = conditions;
    status.observedGeneration = wiki.getMetadata().getGeneration();
  }

  /** A condition that keeps the time of its last transition. */
  private static Condition condition(
      Wiki wiki, String type, String value, String reason, String message) {
    var since =
        statusOf(wiki).conditions.stream()
            .filter(last -> last.getType().equals(type) && last.getStatus().equals(value))
            .map(Condition::getLastTransitionTime)
            .findFirst();
    return new ConditionBuilder()
        .withType(type)
        .withStatus(value)
        .withReason(reason)
        .withMessage(message)
        .withObservedGeneration(wiki.getMetadata().getGeneration())
        .withLastTransitionTime(
            since.orElseGet(() -> Instant.now().truncatedTo(ChronoUnit.SECONDS).toString()))
        .build();
  }
}
