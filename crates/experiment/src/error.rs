//! Why an experiment could not be made.

/// Why an experiment could not be made or finished.
///
/// A service that fails in mid-run is none of these: what was measured until then is reported,
/// with the reason.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The kernel's events cannot be recorded.
    #[error(transparent)]
    EventRecorder(#[from] tailbound_recorder::RecorderError),
    /// A domain of which nothing runs.
    #[error("domain \"{domain}\" does not run")]
    NotRunning {
        /// The domain.
        domain: String,
    },
    /// A domain lacks something that this verb needs.
    #[error("domain \"{domain}\": {what}; {remedy}")]
    Domain {
        /// Which.
        domain: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// The host cannot be asked for what the description's first variant asks.
    #[error("variant {variant}: {reason}")]
    DoesNotFit {
        /// The variant.
        variant: String,
        /// What is too much, and what would fit.
        reason: String,
    },
    /// The description has several hosts, and nothing tells which is this machine.
    #[error(
        "the description has several hosts ({hosts}), and this machine is one of them at most; name it, such as \
         `--host {}`", hosts.split(", ").next().unwrap_or_default()
    )]
    SeveralHosts {
        /// Their names.
        hosts: String,
    },
    /// The description has no host of a name.
    #[error("the description has no host \"{name}\"; it has {hosts}")]
    UnknownHost {
        /// What was asked for.
        name: String,
        /// The names of its hosts.
        hosts: String,
    },
    /// Modes are changed on one host at a time.
    #[error(
        "the description has several hosts ({hosts}), and modes are changed on one host at a time; describe each host \
         in a file of its own"
    )]
    ModesOfSeveralHosts {
        /// Their names.
        hosts: String,
    },
    /// The description has something that is only simulated.
    #[error("{reason}")]
    Unenforceable {
        /// What, and what answers for it.
        reason: String,
    },
    /// A question about the description has no answer.
    #[error(transparent)]
    Assessment(#[from] tailbound_assessment::AssessmentError),
    /// It is not known what a domain gets.
    #[error(transparent)]
    Resolution(#[from] tailbound_analysis::resolution::ResolutionError),
    /// A domain is nothing of this host that can have a reservation.
    #[error(transparent)]
    Binding(#[from] tailbound_enforcement::binding::BindingError),
    /// The arrivals or execution times could not be drawn.
    #[error(transparent)]
    Workload(#[from] tailbound_simulator::workload::WorkloadError),
    /// The measurement could not be made.
    #[error(transparent)]
    Measurement(#[from] tailbound_measurement::MeasurementError),
    /// The daemon refused or could not be reached.
    #[error(transparent)]
    Daemon(#[from] tailbound_control::ClientError),
    /// The daemon knows the modes of another description.
    #[error(
        "the modes of an applied description are known (mode `{mode}` holds), and the daemon knows those of \
         one description at a time; `tailbound revert` ends them"
    )]
    ModesKnown {
        /// The mode that holds there.
        mode: String,
    },
    /// Nobody would notice if a reservation ended during the measurement.
    #[error("cannot watch over the reservations: {source}")]
    NoWatch {
        /// Why.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program} for domain \"{domain}\": {cause}; {remedy}")]
    Start {
        /// The domain.
        domain: String,
        /// The program.
        program: String,
        /// What the kernel said.
        cause: std::io::Error,
        /// What can be done.
        remedy: String,
    },
    /// A program ended when it should not have.
    #[error("{program} of domain \"{domain}\" ended ({how}); its output is in {log}")]
    Ended {
        /// The domain.
        domain: String,
        /// The program.
        program: String,
        /// Its exit status.
        how: String,
        /// The file with its output.
        log: String,
    },
    /// A file that programs of ours wrote could not be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// Which.
        file: String,
        /// What went wrong.
        cause: String,
    },
    /// A result file could not be written.
    #[error("cannot write {file}: {cause}")]
    Write {
        /// Which.
        file: String,
        /// What went wrong.
        cause: String,
    },
    /// The user asked to stop before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
}
