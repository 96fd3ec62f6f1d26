package com.example.wiki;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.DeletionPropagation;
import io.fabric8.kubernetes.api.model.EnvFromSource;
import io.fabric8.kubernetes.api.model.EnvFromSourceBuilder;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.PodTemplateSpec;
import io.fabric8.kubernetes.api.model.PodTemplateSpecBuilder;
import io.fabric8.kubernetes.api.model.Secret;
import io.fabric8.kubernetes.api.model.SecretBuilder;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.api.model.apps.StatefulSetBuilder;
import io.fabric8.kubernetes.api.model.batch.v1.Job;
import io.fabric8.kubernetes.api.model.batch.v1.JobBuilder;
import io.fabric8.kubernetes.api.model.batch.v1.JobCondition;
import io.fabric8.kubernetes.api.model.networking.v1.Ingress;
import io.fabric8.kubernetes.api.model.networking.v1.IngressBuilder;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Deleter;
import io.javaoperatorsdk.operator.api.reconciler.dependent.DependentResource;
import io.javaoperatorsdk.operator.processing.dependent.Creator;
import io.javaoperatorsdk.operator.processing.dependent.Updater;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependentResource;
import io.javaoperatorsdk.operator.processing.dependent.workflow.Condition;
import io.javaoperatorsdk.operator.processing.dependent.workflow.DetailedCondition;
import io.javaoperatorsdk.operator.processing.event.ResourceID;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/** The children of a wiki, and their conditions. */
final class Children {
  private Children() {}

  /** A child that is deleted by the workflow. Without an Updater, it is created once. */
  abstract static class Child<R extends HasMetadata> extends KubernetesDependentResource<R, Wiki>
      implements Creator<R, Wiki>, Deleter<Wiki> {
    private final String part;

    Child(Class<R> type, String part) {
      super(type);
      this.part = part;
    }

    @Override
    protected ResourceID targetSecondaryResourceID(Wiki wiki, Context<Wiki> context) {
      return new ResourceID(nameOf(wiki, part), wiki.getMetadata().getNamespace());
    }

    @Override
    protected void handleDelete(Wiki wiki, R child, Context<Wiki> context) {
      if (child != null) {
        Children.delete(child, context);
      }
    }
  }

  static class Config extends Child<ConfigMap> implements Updater<ConfigMap, Wiki> {
    Config() {
      super(ConfigMap.class, "config");
    }

    @Override
    protected ConfigMap desired(Wiki wiki, Context<Wiki> context) {
      return new ConfigMapBuilder()
          .withMetadata(meta(wiki, "config"))
          .addToData("title", wiki.getSpec().title)
          .build();
    }
  }

  static class Password extends Child<Secret> {
    Password() {
      super(Secret.class, "password");
    }

    @Override
    protected Secret desired(Wiki wiki, Context<Wiki> context) {
      var random = new byte[16];
      new SecureRandom().nextBytes(random);
      return new SecretBuilder()
          .withMetadata(meta(wiki, "password"))
          .addToStringData("password", HexFormat.of().formatHex(random))
          .build();
    }
  }

  static class Database extends Child<StatefulSet> implements Updater<StatefulSet, Wiki> {
    Database() {
      super(StatefulSet.class, "database");
    }

    @Override
    protected StatefulSet desired(Wiki wiki, Context<Wiki> context) {
      var env =
          new EnvFromSourceBuilder()
              .withNewSecretRef()
              .withName(nameOf(wiki, "password"))
              .endSecretRef()
              .build();
      return new StatefulSetBuilder()
          .withMetadata(meta(wiki, "database"))
          .withNewSpec()
          .withReplicas(1)
          .withServiceName(nameOf(wiki, "database"))
          .withNewSelector()
          .withMatchLabels(labels(wiki, "database"))
          .endSelector()
          .withTemplate(pod(wiki, "database", "postgres:17", env))
          .endSpec()
          .build();
    }
  }

  /** A Job for each version. */
  static class Migration extends Child<Job> {
    Migration() {
      super(Job.class, "migration");
    }

    @Override
    protected Job desired(Wiki wiki, Context<Wiki> context) {
      var env =
          new EnvFromSourceBuilder()
              .withNewConfigMapRef()
              .withName(nameOf(wiki, "config"))
              .endConfigMapRef()
              .build();
      var template = pod(wiki, "migration", "example.com/wiki", env);
      template.getSpec().setRestartPolicy("Never");
      var meta = meta(wiki, "migration");
      meta.setName(jobName(wiki));
      return new JobBuilder()
          .withMetadata(meta)
          .withNewSpec()
          .withTemplate(template)
          .endSpec()
          .build();
    }

    @Override
    protected ResourceID targetSecondaryResourceID(Wiki wiki, Context<Wiki> context) {
      return new ResourceID(jobName(wiki), wiki.getMetadata().getNamespace());
    }

    @Override
    public void delete(Wiki wiki, Context<Wiki> context) {
      context.getSecondaryResources(Job.class).forEach(job -> Children.delete(job, context));
    }
  }

  static class WebService extends Child<Service> implements Updater<Service, Wiki> {
    WebService() {
      super(Service.class, "");
    }

    @Override
    protected Service desired(Wiki wiki, Context<Wiki> context) {
      return new ServiceBuilder()
          .withMetadata(meta(wiki, ""))
          .withNewSpec()
          .withSelector(labels(wiki, "web"))
          .addNewPort()
          .withPort(80)
          .endPort()
          .endSpec()
          .build();
    }
  }

  static class Front extends Child<Ingress> implements Updater<Ingress, Wiki> {
    Front() {
      super(Ingress.class, "");
    }

    @Override
    protected Ingress desired(Wiki wiki, Context<Wiki> context) {
      return new IngressBuilder()
          .withMetadata(meta(wiki, ""))
          .withNewSpec()
          .addNewRule()
          .withHost(wiki.getSpec().host)
          .withNewHttp()
          .addNewPath()
          .withPath("/")
          .withPathType("Prefix")
          .withNewBackend()
          .withNewService()
          .withName(nameOf(wiki, ""))
          .withNewPort()
          .withNumber(80)
          .endPort()
          .endService()
          .endBackend()
          .endPath()
          .endHttp()
          .endRule()
          .endSpec()
          .build();
    }
  }

  /** Without a host, the workflow deletes the Ingress. */
  static class HasHost implements Condition<Ingress, Wiki> {
    @Override
    public boolean isMet(
        DependentResource<Ingress, Wiki> dependent, Wiki wiki, Context<Wiki> context) {
      return wiki.getSpec().host != null;
    }
  }

  static class IsReady implements DetailedCondition<StatefulSet, Wiki, String> {
    @Override
    public Result<String> detailedIsMet(
        DependentResource<StatefulSet, Wiki> dependent, Wiki wiki, Context<Wiki> context) {
      var set = dependent.getSecondaryResource(wiki, context);
      return set.map(IsReady::judge).orElse(Result.withResult(false, "it does not exist"));
    }

    private static Result<String> judge(StatefulSet set) {
      var status = set.getStatus();
      int wanted = set.getSpec().getReplicas();
      if (status == null
          || status.getObservedGeneration() == null
          || status.getObservedGeneration() < set.getMetadata().getGeneration()) {
        return Result.withResult(false, "the change is not observed");
      }
      int ready = Objects.requireNonNullElse(status.getReadyReplicas(), 0);
      if (ready != wanted || status.getReplicas() != wanted) {
        return Result.withResult(false, ready + " of " + wanted + " are ready");
      }
      if (!Objects.equals(status.getCurrentRevision(), status.getUpdateRevision())) {
        return Result.withResult(false, "it is being updated");
      }
      return Result.metWithoutResult;
    }
  }

  static class IsComplete implements DetailedCondition<Job, Wiki, String> {
    @Override
    public Result<String> detailedIsMet(
        DependentResource<Job, Wiki> dependent, Wiki wiki, Context<Wiki> context) {
      var complete = jobOf(wiki, context).flatMap(job -> find(job, "Complete"));
      return Result.withResult(complete.isPresent(), "it is not complete");
    }

    static Optional<String> failureOf(Job job) {
      return find(job, "Failed").map(JobCondition::getMessage);
    }

    private static Optional<JobCondition> find(Job job, String type) {
      return Optional.ofNullable(job.getStatus()).stream()
          .flatMap(status -> status.getConditions().stream())
          .filter(one -> one.getType().equals(type) && one.getStatus().equals("True"))
          .findFirst();
    }
  }

  /** The next wave begins when the children of this one are gone. */
  static class Gone implements Condition<HasMetadata, Wiki> {
    @Override
    public boolean isMet(
        DependentResource<HasMetadata, Wiki> dependent, Wiki wiki, Context<Wiki> context) {
      return context.getSecondaryResources(dependent.resourceType()).isEmpty();
    }
  }

  static Optional<Job> jobOf(Wiki wiki, Context<Wiki> context) {
    return context.getSecondaryResources(Job.class).stream()
        .filter(job -> job.getMetadata().getName().equals(jobName(wiki)))
        .findFirst();
  }

  static String jobName(Wiki wiki) {
    return nameOf(wiki, "migration-" + wiki.getSpec().version);
  }

  static void delete(HasMetadata child, Context<Wiki> context) {
    if (!child.isMarkedForDeletion()) {
      var foreground = DeletionPropagation.FOREGROUND;
      context.getClient().resource(child).withPropagationPolicy(foreground).delete();
    }
  }

  private static String nameOf(Wiki wiki, String part) {
    var name = wiki.getMetadata().getName();
    return part.isEmpty() ? name : name + "-" + part;
  }

  private static ObjectMeta meta(Wiki wiki, String part) {
    return new ObjectMetaBuilder()
        .withName(nameOf(wiki, part))
        .withNamespace(wiki.getMetadata().getNamespace())
        .build();
  }

  private static Map<String, String> labels(Wiki wiki, String part) {
    return Map.of("wiki", wiki.getMetadata().getName(), "part", part);
  }

  private static PodTemplateSpec pod(Wiki wiki, String part, String image, EnvFromSource env) {
    return new PodTemplateSpecBuilder()
        .withNewMetadata()
        .withLabels(labels(wiki, part))
        .endMetadata()
        .withNewSpec()
        .addNewContainer()
        .withName(part)
        .withImage(image)
        .addToEnvFrom(env)
        .endContainer()
        .endSpec()
        .build();
  }
}
