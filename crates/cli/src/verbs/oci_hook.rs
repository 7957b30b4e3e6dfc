//! `tailbound oci-hook`: the reservation of a container by its annotations, made and taken back by its OCI runtime.
//!
//! A runtime runs the hook at `poststart` and at `poststop` with the state of the container on standard input. At
//! `poststart` the cgroup and the namespaces of the container are complete, which they are not at `createRuntime`; the
//! states of the two stages differ in `status`, so that one command serves both.

mod container_state;
mod hooks_file;

use std::io;
use std::path::Path;

use tailbound_enforcement::{Target, binding};
use tailbound_linux::named_cgroup::shown_name;
use tailbound_linux::process::{is_in_user_namespace, send_signal};

use super::annotated_container::{AnnotatedContainer, ContainerLimits, is_from, log};
use crate::arguments::OciHookArguments;
use crate::failure::Failure;
use crate::output::Output;
use container_state::ContainerState;

const SIGKILL: i32 = 9;
/// The verb, as the daemon remembers the command that a reservation comes from.
const VERB: &str = "oci-hook";

/// Does what the stage of the container on standard input asks for, or prints the file by which engines run the hook.
pub fn carry_out(arguments: &OciHookArguments, output: &Output) -> Result<(), Failure> {
    if let Some(program) = &arguments.print_hooks_file {
        return output.print(&hooks_file::text(program.as_deref(), arguments)?);
    }
    let state = ContainerState::read(io::stdin().lock())?;
    let container = annotated(&state);
    if !container.asks() {
        return Ok(());
    }
    if state.has_ended() {
        return take_back(&container, output);
    }
    let limits = ContainerLimits::new(&arguments.limits);
    let failure = match container.reserve(&limits, || target(&state)) {
        Ok(None) => return Ok(()),
        Ok(Some(_)) => {
            output.detail(format!("in force while container {} runs", state.id));
            return Ok(());
        }
        Err(failure) => failure,
    };
    log(VERB, &failure);
    if container.is_optional() {
        failure.render();
        output.note(format!(
            "container {} runs without a reservation, as tailbound.required=false allows",
            state.id
        ));
        return Ok(());
    }
    // Some runtimes go on after the failure of a hook at this stage.
    if let Some(pid) = state.process() {
        let _ended_already = send_signal(pid, SIGKILL);
    }
    Err(failure)
}

/// The container of a state; its domain is called like the container in its engine.
fn annotated(state: &ContainerState) -> AnnotatedContainer {
    AnnotatedContainer {
        id: state.id.clone(),
        annotations: state.annotations.clone(),
        default_domain: super::apply::domain_called(&shown_name(Path::new("/"), &state.id)),
    }
}

/// What is reserved for; `None` if the container has ended meanwhile.
fn target(state: &ContainerState) -> Result<Option<Target>, Failure> {
    if is_in_user_namespace().map_err(Failure::from_error)? {
        return Err(Failure::with_help(
            "it is rootless: its hooks have the rights of an ordinary user, who reserves nothing",
            "run the container as root, or have root reserve for its `cgroup` once it runs",
        ));
    }
    match state.process() {
        Some(pid) => binding::own_cgroup(pid).map_err(Failure::from_error),
        None => Ok(None),
    }
}

/// Takes back the reservation of a container that has ended: one that comes from a hook, and is for a container that has
/// been deleted.
fn take_back(container: &AnnotatedContainer, output: &Output) -> Result<(), Failure> {
    let taken_back =
        container.take_back(|one| is_from(one, VERB) && binding::is_removed(&one.enforced.target));
    if let Some(domain) = taken_back? {
        output.detail(format!("taken back: {domain}"));
    }
    Ok(())
}
