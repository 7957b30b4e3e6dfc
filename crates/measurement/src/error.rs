//! What can go wrong while measuring.

use tailbound_time::Duration;

/// Why a measurement could not be made. A service that fails in mid-run is no error: what was
/// measured until then is kept, in [`crate::Measurement::interrupted`].
#[derive(Debug, thiserror::Error)]
pub enum MeasurementError {
    /// The text is no endpoint.
    #[error(
        "\"{text}\" is no endpoint: {why}; write unix:PATH or ADDRESS:PORT, udp:ADDRESS:PORT or topic:TRANSPORT:ADDRESS"
    )]
    BadEndpoint {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing listens, or it does not accept.
    #[error("cannot connect to {endpoint}: {cause}; is the service running and listening there?")]
    Connect {
        /// Where.
        endpoint: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// The service did not become ready.
    #[error("{endpoint} did not answer within {waited}: {last}")]
    NotReady {
        /// Where.
        endpoint: String,
        /// How long it was tried.
        waited: Duration,
        /// What the last attempt said.
        last: String,
    },
    /// A setup or calibration request was refused, or its connection broke.
    #[error("{endpoint} failed at {step}: {cause}")]
    Service {
        /// Where.
        endpoint: String,
        /// What was being done.
        step: String,
        /// What went wrong.
        cause: String,
    },
    /// TLS or the version of HTTP is refused, and will be refused again.
    #[error("no TLS with {endpoint}: {reason}")]
    Handshake {
        /// Where.
        endpoint: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The plan cannot be carried out.
    #[error("{what}; {remedy}")]
    BadPlan {
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// The kernel refused something that the plan asks for.
    #[error("cannot {what}: {cause}; {remedy}")]
    Host {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        cause: std::io::Error,
        /// What can be done.
        remedy: String,
    },
    /// The caller asked to stop before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
}
