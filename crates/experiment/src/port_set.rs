//! The ports of a run: made before its programs, which are started with their ends.

use std::process::Command;

use tailbound_linux::spawn::pass_on;
use tailbound_model::Description;
use tailbound_ports::{PORTS_VARIABLE, PortEnd, PortEnds, PortError, PortSize};
use tailbound_time::Duration;
use tailbound_topics::{PortDescription, PortForm, Ports};

use crate::ExperimentError;

/// The ports of a description, with the sockets of all their ends. A program that is started again gets the same ones.
#[derive(Debug, Default)]
pub struct PortSet {
    channels: Vec<(PortDescription, PortEnds)>,
}

impl PortSet {
    /// The ports of a description.
    ///
    /// # Errors
    /// If the kernel gives no sockets.
    pub fn of(description: &Description) -> Result<Self, ExperimentError> {
        let ports: Ports = description.section();
        let channels = ports.0.into_iter().map(|(name, port)| {
            let channel = channel(&name, &port).map_err(|error| ExperimentError::Domain {
                domain: port.from.clone(),
                what: format!("its port `{name}` was not made: {error}"),
                remedy: "close programs of this user, or raise the number of open files".into(),
            })?;
            Ok((port, channel))
        });
        let channels = channels.collect::<Result<_, ExperimentError>>()?;
        Ok(Self { channels })
    }

    /// Has the program of a domain inherit its ends.
    pub fn give(&self, domain: &str, command: &mut Command) {
        let ends: Vec<&PortEnd> = self.ends(domain).collect();
        if ends.is_empty() {
            command.env_remove(PORTS_VARIABLE);
            return;
        }
        let entries: Vec<String> = ends.iter().map(|end| end.entry()).collect();
        command.env(PORTS_VARIABLE, entries.join(" "));
        pass_on(command, ends.into_iter().flat_map(PortEnd::sockets));
    }

    fn ends(&self, domain: &str) -> impl Iterator<Item = &PortEnd> {
        self.channels.iter().flat_map(move |(port, channel)| {
            let writer = (port.from == domain).then_some(&channel.writer);
            let readers = port.to.iter().zip(&channel.readers);
            let readers = readers.filter(move |(name, _)| *name == domain);
            writer.into_iter().chain(readers.map(|(_, end)| end))
        })
    }
}

fn channel(name: &str, port: &PortDescription) -> Result<PortEnds, PortError> {
    let size = PortSize {
        longest: port.size as usize,
        messages: port.depth as usize,
    };
    match port.kind {
        PortForm::Sampling => {
            let valid_for = port.validity.unwrap_or(Duration::ZERO);
            PortEnds::sampling(name, size, valid_for, port.to.len())
        }
        PortForm::Queuing => PortEnds::queuing(name, size),
    }
}
