//! The reservation of a container that asks for it in its annotations, whichever runtime shows them: made as the
//! container starts, and taken back as it ends.

mod limits;

use std::collections::BTreeMap;
use std::io::Write;

use tailbound_control::protocol::RefusalKind;
use tailbound_control::state_directory::StateDirectory;
use tailbound_control::{Client, ClientError, Lease, ReservationStatus, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, Target, state_directory};
use tailbound_model::{BackendOptions, WhenEmpty};

use crate::arguments::{ANNOTATION_PREFIX, AnnotatedReservation, OptionPlace};
use crate::failure::Failure;
pub use limits::ContainerLimits;

/// `AnnotatedContainer` is a container as a runtime shows it to the verb that reserves for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedContainer {
    /// The identifier in the runtime.
    pub id: String,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
    /// The domain where no annotation names one.
    pub default_domain: String,
}

impl AnnotatedContainer {
    /// Whether the container asks for something of ours.
    pub fn asks(&self) -> bool {
        let mut names = self.annotations.keys();
        names.any(|name| name.starts_with(ANNOTATION_PREFIX))
    }

    /// Whether the container runs even without its reservation.
    pub fn is_optional(&self) -> bool {
        AnnotatedReservation::is_optional(&self.annotations)
    }

    /// Reserves for a container that runs, and returns the domain; `None` if it asks for nothing, or has ended meanwhile,
    /// so that `target` is none.
    ///
    /// # Errors
    /// The annotation that is wrong, or the reason for which the reservation is refused.
    pub fn reserve(
        &self,
        limits: &ContainerLimits,
        target: impl FnOnce() -> Result<Option<Target>, Failure>,
    ) -> Result<Option<String>, Failure> {
        let Some(request) = self.request(limits, target)? else {
            return Ok(None);
        };
        let domain = request.domain.clone();
        let mut client = Client::connect_or_start(&state_directory(), &StartOptions::default())
            .map_err(Failure::from_error)?;
        // Should the runtime never tell of the container's end, the reservation ends by itself.
        let when_empty = BTreeMap::from([(domain.clone(), WhenEmpty::Release)]);
        client
            .apply_with(&[request], Lease::Persistent, when_empty)
            .map_err(|error| self.about(Failure::from_error(error)))?;
        Ok(Some(domain))
    }

    /// The reservation that the annotations ask for.
    fn request(
        &self,
        limits: &ContainerLimits,
        target: impl FnOnce() -> Result<Option<Target>, Failure>,
    ) -> Result<Option<ReservationRequest>, Failure> {
        let Some(mut annotated) = AnnotatedReservation::of(&self.id, &self.annotations)? else {
            return Ok(None);
        };
        let fitted = limits.fit(&self.annotations, &mut annotated);
        fitted.map_err(|failure| self.about(failure))?;
        let interface = annotated.reservation.interface(OptionPlace::Annotations);
        let interface = interface.map_err(|failure| self.about(failure))?;
        let target = target().map_err(|failure| self.about(failure))?;
        Ok(target.map(|target| ReservationRequest {
            domain: self.domain(&annotated),
            target,
            interface,
            backend: annotated.reservation.backend,
            options: BackendOptions::default(),
            interference: Default::default(),
        }))
    }

    /// The domain: as the annotation says, or the default.
    fn domain(&self, annotated: &AnnotatedReservation) -> String {
        let name = annotated.name.clone();
        name.unwrap_or_else(|| self.default_domain.clone())
    }

    /// Takes back the reservation of a container that has ended, where `is_left` says that what is in force under the
    /// domain is that one: another container, or an `apply`, may have taken the name before. Returns the domain.
    ///
    /// # Errors
    /// The daemon cannot be asked, or something cannot be put back.
    pub fn take_back(
        &self,
        is_left: impl Fn(&ReservationStatus) -> bool,
    ) -> Result<Option<String>, Failure> {
        // With annotations that are refused there is no reservation.
        let Ok(Some(annotated)) = AnnotatedReservation::of(&self.id, &self.annotations) else {
            return Ok(None);
        };
        let Some(mut client) = running_daemon()? else {
            return Ok(None);
        };
        let status = client.status().map_err(Failure::from_error)?;
        let domain = self.domain(&annotated);
        let mut reservations = status.reservations.iter();
        if !reservations.any(|one| one.enforced.domain == domain && is_left(one)) {
            return Ok(None);
        }
        match client.revert(Selection::Domain(domain.clone())) {
            Ok(_) => Ok(Some(domain)),
            // It was released meanwhile, since nobody is in it.
            Err(error) if error.refusal_kind() == Some(RefusalKind::NotActive) => Ok(None),
            Err(error) => Err(Failure::from_error(error)),
        }
    }

    /// The failure, with the container that it is about.
    fn about(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Error { message, help } => Failure::Error {
                message: format!("container {}: {message}", self.id),
                help,
            },
            other => other,
        }
    }
}

/// A client of the daemon; `None` where none runs.
pub fn running_daemon() -> Result<Option<Client>, Failure> {
    match Client::connect(&state_directory()) {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::NotRunning { .. } | ClientError::Ended(_)) => Ok(None),
        Err(error) => Err(Failure::from_error(error)),
    }
}

/// Whether a reservation comes from a verb of this program.
pub fn is_from(reservation: &ReservationStatus, verb: &str) -> bool {
    let origin = reservation.origin.as_ref();
    let command = origin.map(|origin| &origin.peer.command);
    command.is_some_and(|command| command.split(' ').any(|word| word == verb))
}

/// Writes a failure into the log of the daemon, since some runtimes show nobody what is said here.
pub fn log(verb: &str, failure: &Failure) {
    let directory = StateDirectory::new(state_directory());
    let prepared = directory.prepare().and_then(|()| directory.open_log());
    if let Ok(mut file) = prepared {
        let _full_disk = writeln!(file, "tailbound {verb}: {failure}");
    }
}
