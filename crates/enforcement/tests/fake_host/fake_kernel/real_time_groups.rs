//! Real-time groups behind constant-bandwidth servers, by the rules of the sixth version of the proposal.

use std::io;
use std::path::Path;

use tailbound_enforcement::audit::is_real_time;
use tailbound_time::Fraction;

use super::{FakeState, V2_ROOT};

/// The control file.
pub const BANDWIDTH: &str = "cpu.rt.max";

/// The bandwidth of all groups together.
pub const ALL_GROUPS_US: (u64, u64) = (700_000, 1_000_000);
/// The same in the kernel's words.
pub const ALL_GROUPS: &str = "700000 1000000";

/// A budget in each period; `None` where a group has no server of its own.
type Bandwidth = Option<(u64, u64)>;

fn parse(text: &str) -> io::Result<Bandwidth> {
    let refused = || io::Error::from(io::ErrorKind::InvalidInput);
    let (runtime, period) = text.split_once(' ').ok_or_else(refused)?;
    let period = period.parse().map_err(|_| refused())?;
    match runtime {
        "max" => Ok(None),
        runtime => Ok(Some((runtime.parse().map_err(|_| refused())?, period))),
    }
}

fn share(bandwidth: Bandwidth) -> Fraction {
    match bandwidth {
        Some((runtime, period)) if period > 0 => Fraction::new(runtime, period),
        _ => Fraction::new(0, 1),
    }
}

impl FakeState {
    fn bandwidth(&self, group: &Path) -> Bandwidth {
        let text = self.cgroups.get(group)?.get(BANDWIDTH)?;
        parse(text).unwrap()
    }

    /// The nearest group, from this one upwards, that has a server; the root if none has.
    fn served_by<'a>(&self, group: &'a Path) -> &'a Path {
        let mut upwards = group.ancestors();
        let served = upwards.find(|path| self.bandwidth(path).is_some());
        served.unwrap_or(Path::new(V2_ROOT))
    }

    /// Whether a real-time thread runs by the server of `group`.
    fn serves_real_time(&self, group: &Path) -> bool {
        let server = self.served_by(group);
        let mut threads = self.threads.values();
        threads.any(|thread| {
            let at = &thread.cgroups[Path::new(V2_ROOT)];
            at.starts_with(group) && self.served_by(at) == server && is_real_time(thread.scheduling)
        })
    }

    /// Checks a value before it is written.
    pub(super) fn check_bandwidth(&self, file: &Path, value: &str) -> io::Result<()> {
        let group = file.parent().unwrap();
        let asked = parse(value)?;
        let is_root = group == Path::new(V2_ROOT);
        let too_much = asked.is_some_and(|(runtime, period)| runtime > period);
        let changes_server = asked.is_none() != self.bandwidth(group).is_none();
        if too_much || asked.is_none() && is_root || changes_server && self.serves_real_time(group)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if asked.is_some_and(|(runtime, _)| runtime == 0) && self.serves_real_time(group) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let above = self.served_by(group.parent().unwrap_or(group));
        let beside = self.cgroups.keys().filter(|other| {
            let parent = other.parent().filter(|_| *other != group);
            self.bandwidth(other).is_some()
                && parent.is_some_and(|parent| {
                    parent.starts_with(V2_ROOT) && self.served_by(parent) == above
                })
        });
        let sum = beside.fold(share(asked), |sum, other| {
            sum + share(self.bandwidth(other))
        });
        match is_root || sum <= share(self.bandwidth(above)) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Checks a move: no real-time thread comes to a server without a budget.
    pub(super) fn check_entry(&self, tid: u32, group: &Path) -> io::Result<()> {
        let server = self.served_by(group);
        let is_idle =
            server != Path::new(V2_ROOT) && share(self.bandwidth(server)) == Fraction::new(0, 1);
        match is_idle && is_real_time(self.thread(tid)?.scheduling) {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(()),
        }
    }
}
