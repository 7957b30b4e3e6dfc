//! `tailbound oci-hook`: the reservation of a container by its annotations, made and taken back by its OCI runtime.
//!
//! A runtime runs the hook at `poststart` and at `poststop` with the state of the container on standard input. At
//! `poststart` the cgroup and the namespaces of the container are complete, which they are not at `createRuntime`; the
//! states of the two stages differ in `status`, so that one command serves both.

mod container_state;
mod hooks_file;
mod limits;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use tailbound_control::protocol::RefusalKind;
use tailbound_control::state_directory::StateDirectory;
use tailbound_control::{Client, ClientError, Lease, ReservationStatus, Selection, StartOptions};
use tailbound_enforcement::binding;
use tailbound_enforcement::{ReservationRequest, state_directory};
use tailbound_linux::named_cgroup::shown_name;
use tailbound_linux::process::{is_in_user_namespace, send_signal};
use tailbound_model::{BackendOptions, WhenEmpty};

use crate::arguments::{AnnotatedReservation, OciHookArguments, OptionPlace};
use crate::failure::Failure;
use crate::output::Output;
use container_state::ContainerState;
use limits::HookLimits;

const SIGKILL: i32 = 9;
/// The verb, as the daemon remembers the command that a reservation comes from.
const VERB: &str = "oci-hook";

/// Does what the stage of the container on standard input asks for, or prints the file by which engines run the hook.
pub fn carry_out(arguments: &OciHookArguments, output: &Output) -> Result<(), Failure> {
    if let Some(program) = &arguments.print_hooks_file {
        return output.print(&hooks_file::text(program.as_deref(), arguments)?);
    }
    let state = ContainerState::read(io::stdin().lock())?;
    if !state.has_annotation_of_ours() {
        return Ok(());
    }
    if state.has_ended() {
        return take_back(&state, output);
    }
    let Err(failure) = reserve(&state, &HookLimits::new(arguments), output) else {
        return Ok(());
    };
    if AnnotatedReservation::is_optional(&state.annotations) {
        failure.render();
        log(&failure);
        output.note(format!(
            "container {} runs without a reservation, as tailbound.required=false allows",
            state.id
        ));
        return Ok(());
    }
    log(&failure);
    // Some runtimes go on after the failure of a hook at this stage.
    if let Some(pid) = state.process() {
        let _ended_already = send_signal(pid, SIGKILL);
    }
    Err(failure)
}

/// Writes a failure into the log of the daemon, since some runtimes show nobody what a hook says.
fn log(failure: &Failure) {
    let directory = StateDirectory::new(state_directory());
    let prepared = directory.prepare().and_then(|()| directory.open_log());
    if let Ok(mut file) = prepared {
        let _full_disk = writeln!(file, "tailbound {VERB}: {failure}");
    }
}

/// Reserves for a container that runs.
fn reserve(state: &ContainerState, limits: &HookLimits, output: &Output) -> Result<(), Failure> {
    let Some(request) = request(state, limits)? else {
        return Ok(());
    };
    let domain = request.domain.clone();
    let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
        .map_err(Failure::from_error)?;
    // Should the runtime die before it runs the hook of `poststop`, the reservation ends by itself.
    let when_empty = BTreeMap::from([(domain.clone(), WhenEmpty::Release)]);
    client
        .apply_with(&[request], Lease::Persistent, when_empty)
        .map_err(|error| about(state, Failure::from_error(error)))?;
    output.detail(format!("in force while container {} runs", state.id));
    Ok(())
}

/// The reservation that the annotations ask for; `None` if the container has ended meanwhile.
fn request(
    state: &ContainerState,
    limits: &HookLimits,
) -> Result<Option<ReservationRequest>, Failure> {
    let Some(mut annotated) = AnnotatedReservation::of(&state.id, &state.annotations)? else {
        return Ok(None);
    };
    let fitted = limits.fit(&state.annotations, &mut annotated);
    fitted.map_err(|failure| about(state, failure))?;
    let interface = annotated.reservation.interface(OptionPlace::Annotations);
    let interface = interface.map_err(|failure| about(state, failure))?;
    if is_in_user_namespace().map_err(Failure::from_error)? {
        return Err(Failure::with_help(
            format!(
                "container {} is rootless: its hooks have the rights of an ordinary user, who reserves nothing",
                state.id
            ),
            "run the container as root, or have root reserve for its `cgroup` once it runs",
        ));
    }
    let Some(pid) = state.process() else {
        return Ok(None);
    };
    let target =
        binding::own_cgroup(pid).map_err(|error| about(state, Failure::from_error(error)))?;
    Ok(target.map(|target| ReservationRequest {
        domain: domain(state, &annotated),
        target,
        interface,
        backend: annotated.reservation.backend,
        options: BackendOptions::default(),
    }))
}

/// The domain of a container: as the annotation says, or like the name that its engine gives it, or its identifier.
fn domain(state: &ContainerState, annotated: &AnnotatedReservation) -> String {
    let name = annotated.name.clone();
    name.unwrap_or_else(|| super::apply::domain_called(&shown_name(Path::new("/"), &state.id)))
}

/// Takes back the reservation of a container that has ended.
fn take_back(state: &ContainerState, output: &Output) -> Result<(), Failure> {
    // With annotations that are refused there is no reservation.
    let Ok(Some(annotated)) = AnnotatedReservation::of(&state.id, &state.annotations) else {
        return Ok(());
    };
    let mut client = match Client::connect(&state_directory()) {
        Ok(client) => client,
        Err(ClientError::NotRunning { .. } | ClientError::Ended(_)) => return Ok(()),
        Err(error) => return Err(Failure::from_error(error)),
    };
    let status = client.status().map_err(Failure::from_error)?;
    let domain = domain(state, &annotated);
    let mut reservations = status.reservations.iter();
    if !reservations.any(|one| one.enforced.domain == domain && is_left_by_hook(one)) {
        return Ok(());
    }
    match client.revert(Selection::Domain(domain.clone())) {
        Ok(_) => {
            output.detail(format!("taken back: {domain}"));
            Ok(())
        }
        // It was released meanwhile, since nobody is in it.
        Err(error) if error.refusal_kind() == Some(RefusalKind::NotActive) => Ok(()),
        Err(error) => Err(Failure::from_error(error)),
    }
}

/// Whether a reservation comes from a hook and is for a container that has been deleted. Another container, or an
/// `apply`, may have taken the name before.
fn is_left_by_hook(reservation: &ReservationStatus) -> bool {
    let command = reservation
        .origin
        .as_ref()
        .map(|origin| &origin.peer.command);
    let is_hook = command.is_some_and(|command| command.split(' ').any(|word| word == VERB));
    is_hook && binding::is_removed(&reservation.enforced.target)
}

/// The failure, with the container that it is about.
fn about(state: &ContainerState, failure: Failure) -> Failure {
    match failure {
        Failure::Error { message, help } => Failure::Error {
            message: format!("container {}: {message}", state.id),
            help,
        },
        other => other,
    }
}
