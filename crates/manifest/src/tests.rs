use proptest::prelude::*;

use super::*;

const DEPLOYMENT: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
data: { spec: text }
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    spec:
      initContainers:
        - name: migration
          resources: { limits: { cpu: 2 } }
      containers:
        - name: server
          resources:
            requests: { cpu: 100m }
            limits:
              cpu: 130m
        - name: proxy
          resources:
            requests: { cpu: 50m }
";

const COMPOSE_FILE: &str = "\
services:
  redis:
    image: redis
    deploy: { resources: { limits: { cpus: '0.50' } } }
  web:
    cpus: 0.13
  batch: { image: batch }
";

fn limit(text: &str, container: Option<&str>) -> Result<String, String> {
    match container_limit(text, container, "f.yaml") {
        Ok(limit) => Ok(limit.to_string()),
        Err(problems) => Err(problems.to_string()),
    }
}

#[test]
fn limits_are_found_wherever_containers_are() {
    assert_eq!(limit(DEPLOYMENT, Some("server")).unwrap(), "130m");
    assert_eq!(limit(DEPLOYMENT, Some("web/server")).unwrap(), "130m");
    assert_eq!(limit(COMPOSE_FILE, Some("redis")).unwrap(), "500m");
    assert_eq!(limit(COMPOSE_FILE, Some("web")).unwrap(), "130m");
    let pod =
        "metadata: {name: a}\nspec: {containers: [{name: b, resources: {limits: {cpu: 1}}}]}\n";
    assert_eq!(limit(pod, None).unwrap(), "1000m");
    let cron = "metadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: {containers:\n  \
                [{name: b, resources: {limits: {cpu: 1.5}}}]}}}}}\n";
    assert_eq!(limit(cron, None).unwrap(), "1500m");
    let list = format!("kind: List\nitems:\n  - {}", pod.replace('\n', "\n    "));
    assert_eq!(limit(&list, Some("a/b")).unwrap(), "1000m");
    let json = r#"{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "b", "resources": {"limits": {"cpu": "250m"}}}]}}"#;
    assert_eq!(limit(json, None).unwrap(), "250m");
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    let error = limit(DEPLOYMENT, Some("proxy")).unwrap_err();
    assert!(
        error.starts_with(
            "f.yaml:22:11: error: spec.template.spec.containers.proxy.resources.limits.cpu: container web/proxy has no CPU \
             limit\n  help: set one"
        ),
        "{error}"
    );
    let error = limit(DEPLOYMENT, None).unwrap_err();
    assert!(
        error.contains("2 containers") && error.contains("web/server, web/proxy"),
        "{error}"
    );
    let error = limit(DEPLOYMENT, Some("migration")).unwrap_err();
    assert!(
        error.contains("no container migration") && error.contains("web/server, web/proxy"),
        "{error}"
    );
    let error = limit(COMPOSE_FILE, Some("batch")).unwrap_err();
    assert!(
        error.contains("f.yaml:7:10: error: services.batch.deploy.resources.limits.cpus"),
        "{error}"
    );
    let error = limit("kind: ConfigMap\n", None).unwrap_err();
    assert!(error.contains("there is no container in it"), "{error}");
    let twice = format!(
        "{DEPLOYMENT}---\n{}",
        DEPLOYMENT.replace("name: web", "name: api")
    );
    let error = limit(&twice, Some("server")).unwrap_err();
    assert!(error.contains("web/server, api/server"), "{error}");
    assert_eq!(limit(&twice, Some("api/server")).unwrap(), "130m");
}

#[test]
fn what_is_no_limit_is_refused_where_it_stands() {
    for wrong in ["13%", "13ms/100ms", "0", "-1", "1e3", "much", "[1]", "~"] {
        let text = DEPLOYMENT.replace(
            "130m",
            &format!("{wrong:?}")
                .replace("\"[1]\"", "[1]")
                .replace("\"~\"", "~"),
        );
        let error = limit(&text, Some("server")).unwrap_err();
        assert!(
            error.starts_with("f.yaml:21:20: error: spec.template.spec.containers.server"),
            "{wrong}: {error}"
        );
        assert!(
            error.contains("help: a limit is a number of CPUs such as 0.13"),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_yaml_is_told() {
    let error = limit("a: [1\nb: 2\n", None).unwrap_err();
    assert!(error.contains("this is no YAML"), "{error}");
    let error = limit("cpu: {{ .Values.cpu }}\n", None).unwrap_err();
    assert!(error.contains("helm template"), "{error}");
    let deep = "[".repeat(100_000);
    assert!(limit(&deep, None).unwrap_err().contains("this is no YAML"));
    let bomb = "a: &a [x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\n";
    assert!(limit(bomb, None).unwrap_err().contains("no container"));
}

proptest! {
    #[test]
    fn places_lie_in_the_file(at in 0..DEPLOYMENT.len(), with in "[\\[\\]{}:&*!|>'\"%@`, \\n\\tä-]{0,4}", name in proptest::option::of("server|proxy|x")) {
        let text = format!("{}{with}{}", &DEPLOYMENT[..at], &DEPLOYMENT[at..]);
        if let Err(problems) = container_limit(&text, name.as_deref(), "f.yaml") {
            for problem in &problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{:?}", problem.span);
                prop_assert!(problem.line <= text.lines().count().max(1) + 1);
                prop_assert!(!problem.remedy.is_empty());
            }
        }
    }
}

#[test]
fn a_container_may_be_without_a_limit_where_none_is_needed() {
    let any = |container| {
        let limit = container_limit_if_any(DEPLOYMENT, Some(container), "f.yaml");
        limit.map(|limit| limit.map(|limit| limit.to_string()))
    };
    assert_eq!(any("server").unwrap().unwrap(), "130m");
    assert!(any("proxy").unwrap().is_none());
    assert!(limit(DEPLOYMENT, Some("proxy")).is_err());
    assert!(any("nobody").is_err());
    let garbled = container_limit_if_any(&DEPLOYMENT.replace("130m", "13%"), Some("server"), "f");
    assert!(garbled.is_err());
}
