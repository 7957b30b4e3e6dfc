//! Annotations of a pod that are about one of its containers.

use std::collections::BTreeMap;

use tailbound_nri::{PodSandbox, RuntimeContainer};

use crate::arguments::ANNOTATION_PREFIX;

/// The scope of an annotation that is about one container, up to its name.
const OF_CONTAINER: &str = "container.";
/// The scope of an annotation that is about all containers of a pod, as one without a scope is.
const OF_POD: &str = "pod";

/// The annotations of ours that are about a container, without their scopes: its own, and before those for all containers
/// of its pod the pod's for this one (`tailbound.budget/container.NAME`), as plugins of NRI read annotations.
pub(super) fn of(pod: &PodSandbox, container: &RuntimeContainer) -> BTreeMap<String, String> {
    let mut of_pod = BTreeMap::new();
    let mut of_container = BTreeMap::new();
    for (key, value) in &pod.annotations {
        if !key.starts_with(ANNOTATION_PREFIX) {
            continue;
        }
        let (name, scope) = key.split_once('/').unwrap_or((key, OF_POD));
        match scope.strip_prefix(OF_CONTAINER) {
            Some(one) if one == container.name => {
                of_container.insert(name.to_owned(), value.clone())
            }
            Some(_) => None,
            None if scope == OF_POD => of_pod.insert(name.to_owned(), value.clone()),
            // With its scope it is no annotation that there is, and refused as such.
            None => of_pod.insert(key.clone(), value.clone()),
        };
    }
    let mut annotations = of_pod;
    annotations.append(&mut of_container);
    annotations.extend(container.annotations.clone());
    annotations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(of_pod: &[(&str, &str)], of_container: &[(&str, &str)]) -> String {
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            pairs.collect()
        };
        let pod = PodSandbox {
            annotations: owned(of_pod),
            ..PodSandbox::default()
        };
        let container = RuntimeContainer {
            name: "redis".into(),
            annotations: owned(of_container),
            ..RuntimeContainer::default()
        };
        let pairs = of(&pod, &container).into_iter();
        let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(" ")
    }

    #[test]
    fn the_narrower_scope_goes_before_the_wider_one() {
        let of_pod = [
            ("tailbound.budget", "1ms"),
            ("tailbound.budget/container.redis", "2ms"),
            ("tailbound.budget/container.proxy", "3ms"),
            ("tailbound.period/pod", "10ms"),
            ("tailbound.period", "10ms"),
            ("tailbound.cpus", "1"),
            ("app", "redis"),
        ];
        assert_eq!(
            read(&of_pod, &[]),
            "tailbound.budget=2ms tailbound.cpus=1 tailbound.period=10ms"
        );
        assert_eq!(
            read(&of_pod[..2], &[("tailbound.budget", "4ms"), ("own", "x")]),
            "own=x tailbound.budget=4ms"
        );
        assert_eq!(read(&of_pod[2..3], &[]), "");
    }

    #[test]
    fn an_unknown_scope_is_left_for_the_refusal() {
        assert_eq!(
            read(&[("tailbound.budget/pods", "1ms")], &[]),
            "tailbound.budget/pods=1ms"
        );
    }
}
