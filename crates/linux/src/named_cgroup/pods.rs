//! Containers of pods: the annotations by which containerd and CRI-O tell their OCI runtime which pod a container is of.

use super::oci_state::OciState;
use super::{Labels, NameError, OF_POD};

/// The keys of one runtime: of a pod's namespace and name, and of a container's name and type.
struct PodKeys {
    namespace: &'static str,
    pod: &'static str,
    container: &'static str,
    kind: &'static str,
}

const CONTAINERD: PodKeys = PodKeys {
    namespace: "io.kubernetes.cri.sandbox-namespace",
    pod: "io.kubernetes.cri.sandbox-name",
    container: "io.kubernetes.cri.container-name",
    kind: "io.kubernetes.cri.container-type",
};
const CRI_O: PodKeys = PodKeys {
    namespace: "io.kubernetes.pod.namespace",
    pod: "io.kubernetes.pod.name",
    container: "io.kubernetes.container.name",
    kind: "io.kubernetes.cri-o.ContainerType",
};

/// The type of a container that is none of a pod's own, but holds its namespaces.
const SANDBOX: &str = "sandbox";

/// Whether a container with these annotations holds the namespaces of a pod, and is none of its own.
pub(super) fn is_sandbox(annotations: &Labels) -> bool {
    let mut keys = [CONTAINERD.kind, CRI_O.kind].into_iter();
    keys.any(|key| annotations.get(key).is_some_and(|kind| kind == SANDBOX))
}

/// A container's place in its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodContainer {
    namespace: String,
    pod: String,
    container: String,
}

impl PodContainer {
    /// The place of a container with these annotations; `None` of one that is in no pod, or is a sandbox.
    fn of(annotations: &Labels) -> Option<Self> {
        let with_keys = |keys: PodKeys| {
            let text = |key| annotations.get(key).cloned();
            let names = (
                text(keys.namespace)?,
                text(keys.pod)?,
                text(keys.container)?,
            );
            let (namespace, pod, container) = names;
            Some(Self {
                namespace,
                pod,
                container,
            })
        };
        if is_sandbox(annotations) {
            return None;
        }
        with_keys(CONTAINERD).or_else(|| with_keys(CRI_O))
    }

    fn path(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.pod, self.container)
    }

    /// Whether it is meant by `namespace/pod` or `namespace/pod/container`.
    fn is_meant(&self, path: &str) -> bool {
        let mut names = path.splitn(3, '/');
        let is_pod = names.next() == Some(&self.namespace) && names.next() == Some(&self.pod);
        is_pod && names.next().is_none_or(|name| name == self.container)
    }
}

/// The one running container that is meant by a path.
pub(super) fn container<'a>(states: &'a [OciState], path: &str) -> Result<&'a OciState, NameError> {
    let running = states.iter().filter(|state| state.runs());
    let of_pods =
        running.filter_map(|state| Some((state, PodContainer::of(&state.annotations())?)));
    let of_pods: Vec<(&OciState, PodContainer)> = of_pods.collect();
    let paths = |meant: &dyn Fn(&PodContainer) -> bool| -> Vec<String> {
        let meant = of_pods.iter().filter(|(_, place)| meant(place));
        let mut paths: Vec<String> = meant.map(|(_, place)| place.path()).collect();
        paths.sort();
        paths
    };
    let mut meant = of_pods.iter().filter(|(_, place)| place.is_meant(path));
    match (meant.next(), meant.next()) {
        (Some((state, _)), None) => Ok(state),
        (Some(_), Some(_)) => Err(NameError::Ambiguous {
            kind: OF_POD,
            name: path.to_owned(),
            candidates: paths(&|place| place.is_meant(path)),
        }),
        (None, _) => Err(NameError::Absent {
            kind: OF_POD,
            name: path.to_owned(),
            candidates: paths(&|_| true),
            remedy: "write NAMESPACE/POD as `kubectl get pods --all-namespaces` shows them; the pod must run on this host"
                .into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Option<String> {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        PodContainer::of(&pairs.collect()).map(|place| place.path())
    }

    /// As containerd 2.4.2 gives them to runc.
    const OF_CONTAINERD: [(&str, &str); 4] = [
        ("io.kubernetes.cri.sandbox-namespace", "default"),
        ("io.kubernetes.cri.sandbox-name", "cache"),
        ("io.kubernetes.cri.container-name", "redis"),
        ("io.kubernetes.cri.container-type", "container"),
    ];

    #[test]
    fn both_runtimes_of_kubernetes_tell_the_pod() {
        assert_eq!(
            place(&OF_CONTAINERD).as_deref(),
            Some("default/cache/redis")
        );
        let of_cri_o = [
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.name", "cache"),
            ("io.kubernetes.container.name", "redis"),
            ("io.kubernetes.cri-o.ContainerType", "container"),
        ];
        assert_eq!(place(&of_cri_o).as_deref(), Some("default/cache/redis"));
        let sandbox = [
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.name", "cache"),
            ("io.kubernetes.container.name", "POD"),
            ("io.kubernetes.cri-o.ContainerType", "sandbox"),
        ];
        assert_eq!(place(&sandbox), None);
        assert_eq!(place(&OF_CONTAINERD[..2]), None);
    }

    #[test]
    fn a_path_means_all_containers_of_a_pod_or_one() {
        let pairs = OF_CONTAINERD.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let place = PodContainer::of(&pairs.into()).unwrap_or_else(|| panic!("a container"));
        assert!(place.is_meant("default/cache") && place.is_meant("default/cache/redis"));
        for other in [
            "default/cach",
            "other/cache",
            "default/cache/proxy",
            "cache",
            "default",
        ] {
            assert!(!place.is_meant(other), "{other}");
        }
    }
}
