//! From a deployment to reservation requests: which processes, threads, cgroups and Xen domains of this
//! host the described domains are.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use tailbound_analysis::interference::HostInterference;
use tailbound_analysis::resolution::{Deployment, ResolvedDomain, unenforceable};
use tailbound_linux::named_cgroup::NameError;
use tailbound_linux::network_interface::NetworkPlace;
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, Description, Domain, IsolatedNamespace, Isolation,
    Members, Priority, ResourceInterface,
};
use tailbound_time::Duration;
use tailbound_topics::{DatagramLimit, TaskName, Topics};

use crate::backend::{
    CgroupName, GuardedTopics, InterruptTarget, NamedCgroup, ReservationRequest, Target,
};
use crate::virtual_machine::{self, MachineError};
use crate::{KernelView, LinuxKernel};

/// Why a described domain is nothing of this host that can have a reservation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// Something of the description is only simulated.
    #[error("{0}")]
    Unenforceable(String),
    /// The described server is not the one that the back end enforces.
    #[error("{0}")]
    OtherServer(String),
    /// The domain's programs do not run yet.
    #[error("domain \"{domain}\" is to be started by a run, so it has no processes yet")]
    NotStarted {
        /// The domain.
        domain: String,
    },
    /// The contract of a topic is to be enforced in the network of a program that does not run yet.
    #[error(
        "domain \"{domain}\": the kernel enforces the contract of topic `{topic}` in the domain's own network, which begins with its \
         program, and that one is started after the reservations are made; give the domain a reservation, leave \"network\" out of \
         its isolation, or leave out guard = \"kernel\""
    )]
    NoNetworkYet {
        /// The domain.
        domain: String,
        /// The topic.
        topic: String,
    },
    /// The name of a unit or container is not that of one cgroup of this host.
    #[error("domain \"{domain}\": {source}; {}", .source.remedy())]
    Name {
        /// The domain.
        domain: String,
        /// The key of the domain that has the name.
        key: &'static str,
        /// Why not.
        source: NameError,
    },
    /// The container has no cgroup of its own.
    #[error(
        "its first process {pid} is in a cgroup with programs outside of it ({}); start it with a cgroup of its own", .cgroup.display()
    )]
    SharedCgroup {
        /// The first process of the container.
        pid: u32,
        /// The cgroup.
        cgroup: PathBuf,
    },
    /// The cgroup of a process cannot be read.
    #[error("the cgroup of process {pid}: {source}; see tailbound doctor")]
    Unreadable {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// The virtual machine does not say which threads its virtual CPUs are.
    #[error("domain \"{domain}\": {source}")]
    Machine {
        /// The domain.
        domain: String,
        /// Why not.
        source: MachineError,
    },
}

/// The processes of the domains whose programs were started, by domain.
pub type StartedProcesses = BTreeMap<String, Vec<u32>>;

/// The members of a domain on this host. `started` are the processes of its programs, if those were
/// started: the programs themselves for a run, stand-ins for a dry run. `None` for a domain that the
/// description does not place on a host.
///
/// # Errors
/// The programs were not started, or the virtual machine cannot be asked.
pub fn target(
    description: &Description,
    name: &str,
    started: Option<&[u32]>,
) -> Result<Option<Target>, BindingError> {
    let Some(domain) = description.domains.get(name) else {
        return Ok(None);
    };
    let target = match domain.members(name) {
        Members::Simulated => return Ok(None),
        Members::Processes(pids) => Target::Processes(pids.to_vec()),
        Members::Cgroup(cgroup) => Target::Cgroup(cgroup.to_owned()),
        Members::Unit(unit) => named(name, CgroupName::Unit(unit.to_owned()))?,
        Members::Container(container) => named(name, CgroupName::Container(container.to_owned()))?,
        Members::ContainerLabel(label) => {
            named(name, CgroupName::ContainerLabel(label.to_owned()))?
        }
        Members::Pod(pod) => named(name, CgroupName::Pod(pod.to_owned()))?,
        Members::XenDomain(name) => Target::XenDomain(name.to_owned()),
        Members::Interrupts(source) => Target::Interrupts(InterruptTarget {
            source: source.name.clone(),
            receive: source.receive,
            threads: Vec::new(),
        }),
        Members::Started { .. } => {
            let started = started.ok_or_else(|| BindingError::NotStarted {
                domain: name.to_owned(),
            })?;
            Target::Processes(started.to_vec())
        }
        Members::Machine(machine) => {
            let target = virtual_machine::target(machine, description.emulator_cpus(domain));
            target.map_err(|source| BindingError::Machine {
                domain: name.to_owned(),
                source,
            })?
        }
    };
    Ok(Some(target))
}

/// The cgroup that belongs to a name of a domain.
///
/// # Errors
/// [`BindingError::Name`], where the name is that of nothing that runs, or of several.
pub fn named(domain: &str, name: CgroupName) -> Result<Target, BindingError> {
    let key = name.key();
    let group = match LinuxKernel::new() {
        Ok(kernel) => NamedCgroup::of(name, &kernel),
        Err(_) => Err(NameError::without_hierarchy(key, name.text())),
    };
    let named = group.map_err(|source| BindingError::Name {
        domain: domain.to_owned(),
        key,
        source,
    })?;
    Ok(Target::NamedCgroup(named))
}

/// The cgroup of the container whose first process this is, for a program that is not in the container; `None` if the
/// process has ended.
///
/// # Errors
/// The cgroup cannot be read, or the calling program is in it or below it as well.
pub fn own_cgroup(pid: u32) -> Result<Option<Target>, BindingError> {
    let unreadable = |source| BindingError::Unreadable { pid, source };
    let kernel = LinuxKernel::new().map_err(unreadable)?;
    let root = kernel.unified_root().ok_or_else(|| {
        unreadable(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no cgroup v2 here",
        ))
    })?;
    let cgroup = match kernel.cgroup_of(pid, &root) {
        Ok(cgroup) => cgroup,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let ours = kernel
        .cgroup_of(std::process::id(), &root)
        .map_err(unreadable)?;
    if ours.starts_with(&cgroup) {
        return Err(BindingError::SharedCgroup { pid, cgroup });
    }
    let below = cgroup.strip_prefix(&root).unwrap_or(&cgroup);
    Ok(Some(Target::Cgroup(below.to_owned())))
}

/// Whether a target is a cgroup that has been removed, as a runtime removes that of a container.
pub fn is_removed(target: &Target) -> bool {
    let root = LinuxKernel::new()
        .ok()
        .and_then(|kernel| kernel.unified_root());
    match (root, target.cgroup()) {
        (Some(root), Some(cgroup)) => !root.join(cgroup).exists(),
        _ => false,
    }
}

/// The reservations of a deployment, for the members that its domains have on this host. Domains with the
/// back end `none` are left out.
///
/// # Errors
/// [`BindingError`] names the first domain for which there can be no reservation.
pub fn requests(
    deployment: &Deployment,
    started: &StartedProcesses,
) -> Result<Vec<ReservationRequest>, BindingError> {
    let description = &deployment.description;
    if let Some(why) = unenforceable(description) {
        return Err(BindingError::Unenforceable(why));
    }
    if let Some(why) = other_server(&deployment.reserved) {
        return Err(BindingError::OtherServer(why));
    }
    let mut requests = Vec::new();
    for (name, reserved) in &deployment.reserved {
        let described = description.domains.get(name);
        let is_of_interrupts = described.is_some_and(|domain| domain.interrupts.is_some());
        // The affinity of interrupts is put into force without a back end.
        if !reserved.backend.enforces() && !is_of_interrupts {
            continue;
        }
        let processes = started.get(name).map(Vec::as_slice);
        let Some(target) = target(description, name, processes)? else {
            continue;
        };
        let host = described.and_then(|domain| description.host_of(domain));
        let interference = host.map_or_else(HostInterference::default, |(_, host)| {
            HostInterference::described(host).on_cpus(&reserved.interface.cpus)
        });
        requests.push(ReservationRequest {
            domain: name.clone(),
            target,
            interface: reserved.interface.clone(),
            backend: reserved.backend,
            options: reserved.options,
            interference,
        });
    }
    requests.extend(topic_requests(deployment, started)?);
    Ok(requests)
}

/// The suffix of the name under which the topics of a domain are held; no domain has a dot in its name.
const TOPICS_SUFFIX: &str = ".topics";

/// The name under which the topics of a domain are held.
pub fn name_of_topics(domain: &str) -> String {
    format!("{domain}{TOPICS_SUFFIX}")
}

/// The network namespaces of the programs of a domain; none where those have that of this process.
pub fn networks(domain: &Domain, started: &[u32]) -> Vec<NetworkPlace> {
    let isolation = domain.isolation.as_ref();
    match &domain.network_namespace {
        Some(name) => vec![NetworkPlace::Named(name.clone())],
        None if isolation.is_some_and(|own| own.has(IsolatedNamespace::Network)) => {
            let started = started.iter().copied();
            started.map(NetworkPlace::OfProcess).collect()
        }
        None => Vec::new(),
    }
}

/// For each domain that subscribes to topics with a contract that the kernel is to enforce: a request for their datagrams. No CPU time is
/// reserved with it.
fn topic_requests(
    deployment: &Deployment,
    started: &StartedProcesses,
) -> Result<Vec<ReservationRequest>, BindingError> {
    let description = &deployment.description;
    let topics: Topics = description.section();
    let mut limits: BTreeMap<String, Vec<DatagramLimit>> = BTreeMap::new();
    for (key, topic) in &topics.0 {
        let Some(limit) = DatagramLimit::of(key, topic) else {
            continue;
        };
        let tasks = topic.subscribers.iter().chain(&topic.released);
        let domains = tasks.filter_map(|task| Some(TaskName::parse(task)?.domain));
        for domain in domains.collect::<BTreeSet<String>>() {
            limits.entry(domain).or_default().push(limit.clone());
        }
    }
    let mut requests = Vec::new();
    for (name, limits) in limits {
        let described = description.domains.get(&name);
        let place = described.and_then(|domain| Some((domain, description.host_of(domain)?)));
        let Some((domain, (_, host))) = place else {
            continue;
        };
        let processes = started.get(&name).map_or(&[][..], Vec::as_slice);
        let networks = networks(domain, processes);
        let has_own = |isolation: &Isolation| isolation.has(IsolatedNamespace::Network);
        if networks.is_empty() && domain.isolation.as_ref().is_some_and(has_own) {
            return Err(BindingError::NoNetworkYet {
                domain: name,
                topic: limits
                    .into_iter()
                    .map(|one| one.topic)
                    .collect::<Vec<_>>()
                    .join("`, `"),
            });
        }
        requests.push(ReservationRequest {
            domain: name_of_topics(&name),
            target: Target::Topics(GuardedTopics { limits, networks }),
            // Whatever it says, no back end gives it.
            interface: ResourceInterface {
                budget: Duration::from_millis(1),
                period: Duration::from_millis(1),
                priority: Priority::LOWEST,
                cpus: host.cpus.iter().take(1).copied().collect(),
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            },
            backend: BackendKind::None,
            options: BackendOptions::default(),
            interference: HostInterference::default(),
        });
    }
    Ok(requests)
}

/// Why the described rule of a reservation server is not the one that its back end enforces, if so.
pub fn other_server(reserved: &BTreeMap<String, ResolvedDomain>) -> Option<String> {
    reserved.iter().find_map(|(domain, one)| {
        let described = one.server_kind?;
        let backend = one.backend;
        match (one.backend, one.backend.server_kind()) {
            // These baselines of a variant have no server at all.
            (backend, _) if !backend.has_budget() => None,
            (_, Some(enforced)) if enforced == described => None,
            (_, Some(enforced)) => Some(format!(
                "domain \"{domain}\": {backend} enforces a {enforced} server, and a {described} one \
                 is described; leave `server` out, or write server = \"{enforced}\" (`tailbound \
                 predict`, `size` and `simulate` answer for the described one)"
            )),
            (_, None) => Some(format!(
                "domain \"{domain}\": {backend} is a cap and no {described} server; leave `server` \
                 out, or choose a back end that guarantees a budget"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::Variant;

    use super::*;

    fn deployment(domains: &str) -> Deployment {
        let text = format!(
            "schema_version = 1\nname = \"bound\"\nhosts.here = {{ cpus = [0, 1], housekeeping = [0] }}\n{domains}"
        );
        let description = tailbound_model::parse(&text, "bound.toml").unwrap();
        Deployment::of(&description, None, &Variant::as_described()).unwrap()
    }

    fn reserved(kind: &str, members: &str) -> Deployment {
        deployment(&format!(
            "[domains.one]\nkind = \"{kind}\"\n{members}\n\
             reservation = {{ budget = \"2ms\", period = \"10ms\", cpus = [1] }}\n"
        ))
    }

    fn target_of(deployment: &Deployment) -> Target {
        let started = [("one".to_owned(), vec![7, 8])].into();
        let requests = requests(deployment, &started).unwrap();
        requests[0].target.clone()
    }

    #[test]
    fn every_kind_of_domain_is_bound_as_it_is_named() {
        let cases = [
            (
                reserved("process", "command = [\"a\"]\ninstances = 2"),
                Target::Processes(vec![7, 8]),
            ),
            (
                reserved("process", "builtin = \"cpu-hog\""),
                Target::Processes(vec![7, 8]),
            ),
            (
                reserved("process", "pids = [4, 5]"),
                Target::Processes(vec![4, 5]),
            ),
            (
                reserved("container", "cgroup = \"box\""),
                Target::Cgroup("box".into()),
            ),
        ];
        for (deployment, target) in cases {
            assert_eq!(target_of(&deployment), target);
        }
    }

    #[test]
    fn a_machine_is_asked_and_no_stand_in_takes_its_place() {
        let nobody = u32::MAX >> 10;
        let machine = reserved("qemu-vm", &format!("machine = {{ pid = {nobody} }}"));
        let started = [("one".to_owned(), vec![7])].into();
        let error = requests(&machine, &started).unwrap_err();
        assert!(matches!(error, BindingError::Machine { .. }), "{error}");
    }

    #[test]
    fn a_container_without_a_cgroup_of_its_own_is_refused() {
        let nobody = u32::MAX >> 10;
        if LinuxKernel::new().unwrap().unified_root().is_none() {
            eprintln!("SKIP a_container_without_a_cgroup_of_its_own_is_refused: needs cgroup v2");
            return;
        }
        assert_eq!(own_cgroup(nobody).unwrap(), None);
        assert!(is_removed(&Target::Cgroup("no/such/cgroup".into())));
        assert!(!is_removed(&Target::Cgroup(PathBuf::new())));
        assert!(!is_removed(&Target::Processes(vec![nobody])));
        let error = own_cgroup(std::process::id()).unwrap_err();
        assert!(
            matches!(error, BindingError::SharedCgroup { .. }),
            "{error}"
        );
    }

    #[test]
    fn programs_that_do_not_run_have_no_members() {
        let described = reserved("process", "command = [\"a\"]");
        let error = requests(&described, &StartedProcesses::new()).unwrap_err();
        assert!(matches!(error, BindingError::NotStarted { .. }), "{error}");
    }

    #[test]
    fn a_server_that_the_back_end_does_not_enforce_is_refused() {
        let described = deployment(
            "[domains.one]\nkind = \"process\"\npids = [1]\n\
             reservation = { budget = \"2ms\", period = \"10ms\", cpus = [1], server = \"polling\" }\n",
        );
        let error = requests(&described, &StartedProcesses::new()).unwrap_err();
        assert!(matches!(error, BindingError::OtherServer(_)), "{error}");
    }
}
