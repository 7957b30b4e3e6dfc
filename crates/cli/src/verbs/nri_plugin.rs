//! `tailbound nri-plugin`: the reservations of containers by annotations of their pods, as a plugin of containerd or CRI-O.
//!
//! The runtime asks the plugin when a container has its cgroup and its namespaces and its program is about to begin, so that
//! the program never runs without its reservation, and whoever started a container is told why it is refused. Reservations
//! do not depend on the plugin: another one goes on where this one has ended.

mod pod_annotations;

use std::env;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use tailbound_control::{ReservationStatus, StartOptions};
use tailbound_enforcement::binding::{self, BindingError};
use tailbound_enforcement::{CgroupName, Target, state_directory};
use tailbound_linux::control_socket;
use tailbound_nri::{Plugin, PluginSession, PodSandbox, Rejection, RuntimeContainer};

use super::annotated_container::{
    AnnotatedContainer, ContainerLimits, is_from, log, running_daemon,
};
use crate::arguments::NriPluginArguments;
use crate::failure::Failure;
use crate::output::Output;

/// The verb, as the daemon remembers the command that a reservation comes from.
const VERB: &str = "nri-plugin";
/// The plugin, as runtimes know it.
const PLUGIN: &str = "tailbound";
/// The variable in which a runtime names the connection of a plugin that it has started.
const SOCKET_VARIABLE: &str = "NRI_PLUGIN_SOCKET";

/// Reserves for containers until the runtime ends the connection.
pub fn carry_out(arguments: &NriPluginArguments, output: &Output) -> Result<(), Failure> {
    let mut stream = connection(arguments)?;
    // The first container should not wait for the start of a daemon: a runtime waits for two seconds.
    tailbound_control::Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    let mut plugin = ReservingPlugin {
        limits: ContainerLimits::new(&arguments.limits),
        output,
    };
    let index = format!("{:02}", arguments.index);
    let (mut session, registration) = PluginSession::begin(PLUGIN, &index);
    stream.write_all(&registration).map_err(ended)?;
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let received = stream.read(&mut bytes).map_err(ended)?;
        if received == 0 {
            return Err(ended("nothing follows"));
        }
        let was_registered = session.is_registered();
        let answers = session.receive(&bytes[..received], &mut plugin);
        let answers = answers.map_err(Failure::from_error)?;
        stream.write_all(&answers).map_err(ended)?;
        if session.is_registered() && !was_registered {
            output.note(format!("the runtime has taken the plugin {index}-{PLUGIN}"));
        }
    }
}

/// The connection to the runtime: the one that it has given this process, or one to its socket.
fn connection(arguments: &NriPluginArguments) -> Result<UnixStream, Failure> {
    if let Ok(number) = env::var(SOCKET_VARIABLE) {
        let stream = number
            .parse()
            .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))
            .and_then(control_socket::inherited);
        return stream.map_err(|error| {
            Failure::with_help(
                format!("{SOCKET_VARIABLE}={number} is no connection to a runtime: {error}"),
                "the runtime sets it for plugins that it starts; start this one without it",
            )
        });
    }
    UnixStream::connect(&arguments.socket).map_err(|error| {
        Failure::with_help(
            format!(
                "no runtime takes plugins at {}: {error}",
                arguments.socket.display()
            ),
            "containerd 2 and CRI-O 1.30 do; for containerd 1.7, set disable = false in the table \
             [plugins.\"io.containerd.nri.v1.nri\"] of its configuration",
        )
    })
}

fn ended(why: impl ToString) -> Failure {
    Failure::with_help(
        format!("the runtime has ended the connection ({})", why.to_string()),
        "reservations that are in force stay; start the plugin again, as tailbound-nri.service does",
    )
}

/// `ReservingPlugin` makes and takes back the reservations that annotations ask for.
struct ReservingPlugin<'a> {
    limits: ContainerLimits,
    output: &'a Output,
}

impl Plugin for ReservingPlugin<'_> {
    fn synchronize(&mut self, containers: &[(PodSandbox, RuntimeContainer)]) {
        let asking = containers.iter().filter(|(_, container)| container.runs());
        let asking = asking.map(|(pod, container)| (annotated(pod, container), container));
        let asking: Vec<_> = asking.filter(|(annotated, _)| annotated.asks()).collect();
        if asking.is_empty() {
            return;
        }
        let reservations = match reservations() {
            Ok(reservations) => reservations,
            Err(failure) => return self.report(&failure),
        };
        for (annotated, container) in asking {
            let mut reservations = reservations.iter();
            if reservations.any(|one| is_for(one, &container.id)) {
                continue;
            }
            // A container that runs is not ended for what was not possible while no plugin was there.
            if let Err(failure) = self.reserve(&annotated, container) {
                self.report(&failure);
            }
        }
    }

    fn start(&mut self, pod: &PodSandbox, container: &RuntimeContainer) -> Result<(), Rejection> {
        let annotated = annotated(pod, container);
        if !annotated.asks() {
            return Ok(());
        }
        let Err(failure) = self.reserve(&annotated, container) else {
            return Ok(());
        };
        self.report(&failure);
        if annotated.is_optional() {
            let id = &annotated.id;
            self.output.note(format!(
                "container {id} runs without a reservation, as tailbound.required=false allows"
            ));
            return Ok(());
        }
        Err(Rejection(format!("tailbound: {}", words(&failure))))
    }

    fn stop(&mut self, pod: &PodSandbox, container: &RuntimeContainer) {
        let annotated = annotated(pod, container);
        if !annotated.asks() {
            return;
        }
        let taken_back =
            annotated.take_back(|one| is_from(one, VERB) && is_for(one, &container.id));
        match taken_back {
            Ok(Some(domain)) => self.output.note(format!("taken back: {domain}")),
            Ok(None) => {}
            Err(failure) => self.report(&failure),
        }
    }
}

impl ReservingPlugin<'_> {
    fn reserve(
        &self,
        annotated: &AnnotatedContainer,
        container: &RuntimeContainer,
    ) -> Result<(), Failure> {
        // What a container of the same name has left may not have been released yet.
        annotated
            .take_back(|one| is_from(one, VERB) && binding::is_removed(&one.enforced.target))?;
        let domain = annotated.reserve(&self.limits, || {
            target(&annotated.default_domain, container).map(Some)
        })?;
        let domain = domain.unwrap_or_default();
        self.output.note(format!("in force: {domain}"));
        Ok(())
    }

    fn report(&self, failure: &Failure) {
        log(VERB, failure);
        failure.render();
    }
}

/// What is reserved for: the cgroup of the first process, where the runtime names that one, or else the cgroup that the
/// container has in the state of its OCI runtime.
fn target(domain: &str, container: &RuntimeContainer) -> Result<Target, Failure> {
    if container.pid > 0
        && let Some(target) = binding::own_cgroup(container.pid).map_err(Failure::from_error)?
    {
        return Ok(target);
    }
    let name = CgroupName::Container(container.id.clone());
    binding::named(domain, name).map_err(|error| match error {
        BindingError::Name { source, .. } => Failure::with_help(
            source,
            "the plugin needs the processes, /run and /sys/fs/cgroup of the host: in a pod, hostPID and those two mounts",
        ),
        other => Failure::from_error(other),
    })
}

/// The container with all annotations that are about it; its domain is called like namespace, pod and container.
fn annotated(pod: &PodSandbox, container: &RuntimeContainer) -> AnnotatedContainer {
    let path = format!("{}/{}/{}", pod.namespace, pod.name, container.name);
    AnnotatedContainer {
        id: container.id.clone(),
        annotations: pod_annotations::of(pod, container),
        default_domain: super::apply::domain_called(&path),
    }
}

/// The reservations that are in force.
fn reservations() -> Result<Vec<ReservationStatus>, Failure> {
    let Some(mut client) = running_daemon()? else {
        return Ok(Vec::new());
    };
    let status = client.status().map_err(Failure::from_error)?;
    Ok(status.reservations)
}

/// Whether a reservation is for the container with an identifier: runtimes have the identifier in the name of its cgroup.
fn is_for(reservation: &ReservationStatus, id: &str) -> bool {
    let cgroup = reservation.enforced.target.cgroup();
    let name = cgroup.and_then(|cgroup| cgroup.file_name()?.to_str());
    !id.is_empty() && name.is_some_and(|name| name.contains(id))
}

/// A failure in one line.
fn words(failure: &Failure) -> String {
    match failure {
        Failure::Error {
            message,
            help: Some(help),
        } => format!("{message}; {help}"),
        other => other.to_string(),
    }
}
