//! The major frame and the windows of a host's time partitions that meet the deadlines of tasks and chains with the least
//! share of the CPUs.
//!
//! The search is over a grid: frames are multiples of a step that divide the hyperperiod of the host's tasks and are no
//! longer than the longest period; each partition has one window a frame, or up to so many as the query allows, with offset and
//! length on the grid. Among all of these it takes those with the least sum of window lengths per frame. Every window begins with
//! the cost of a switch, in which its partition does not run.
//!
//! At first the search is for windows of one length and evenly apart, of which those that switch least are taken. Where a partition
//! may have several windows, `uneven_search` follows for windows of different lengths at any distances that have a lesser share.
//!
//! The order of the search is that of the shares, from below: for a frame the least length of each window by the deadlines
//! of its tasks alone, then one step more in all, and so on, each with every division of the steps and every placement. The
//! first answer is therefore the least one, since all lesser ones were refuted. A chain is judged as soon as all of its
//! partitions are placed, and refutes all placements of the others.

mod frame_candidate;
mod grid_search;
mod uneven_search;

use serde::Serialize;
use tailbound_model::{Arrivals, BackendKind, BackendTraits, Description, InputFiles, Window};
use tailbound_time::{Duration, nanoseconds};
use tailbound_topics::{Chains, TaskName};

use crate::AssessmentError;
use crate::schedulability::{DeadlineVerdict, ModeVerdict, judge};
use frame_candidate::{EvenWindows, FrameCandidate};
use grid_search::GridSearch;
use uneven_search::{UnevenEnd, UnevenSearch};

/// The cost of a switch where the host's overheads say none: a generous one for a freezer of cgroups.
pub const USUAL_SWITCH: Duration = Duration::from_micros(50);

/// The most choices of frames and numbers of windows that a search has.
const MOST_CHOICES: u64 = 10_000;

/// The most placements that a search judges, unless something else is said.
pub const MOST_PLACEMENTS: u64 = 200_000;

/// What is sized.
#[derive(Clone, Copy, Debug)]
pub struct FrameQuery<'a> {
    /// The system, without modes.
    pub description: &'a Description,
    /// The files that the description names.
    pub inputs: &'a InputFiles,
    /// The host; `None` for the only one with time partitions.
    pub host: Option<&'a str>,
    /// The step of frames, offsets and lengths.
    pub grid: Duration,
    /// The most windows of a partition in one frame; at least one.
    pub most_windows: u64,
    /// The most placements that are judged.
    pub most_placements: u64,
}

/// A frame and its windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameSizing {
    /// The host.
    pub host: String,
    /// The major frame.
    #[serde(rename = "major_frame_ns", with = "nanoseconds")]
    pub frame: Duration,
    /// The windows of each partition, in the order of the frame.
    pub windows: Vec<SizedWindow>,
    /// The sum of the lengths of the windows, as a share of the frame.
    pub share: f64,
    /// No windows on the grid have a lesser share than this one.
    pub least_share: f64,
    /// Whether the answer is the least one on the grid.
    pub is_least: bool,
    /// The step of the grid.
    #[serde(rename = "grid_ns", with = "nanoseconds")]
    pub grid: Duration,
    /// The cost of a switch at the begin of each window.
    #[serde(rename = "switch_ns", with = "nanoseconds")]
    pub switch: Duration,
    /// The placements that were judged.
    pub placements: u64,
}

/// A window of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizedWindow {
    /// The domain.
    pub domain: String,
    /// The begin of the window, from that of the frame.
    #[serde(rename = "offset_ns", with = "nanoseconds")]
    pub offset: Duration,
    /// The length of the window, with the switch.
    #[serde(rename = "length_ns", with = "nanoseconds")]
    pub length: Duration,
}

/// Why there is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameSizingError {
    /// A question about the description that has no answer.
    #[error(transparent)]
    Assessment(#[from] AssessmentError),
    /// Nothing to size.
    #[error(
        "{0} has no time partitions; reserve windows for domains (back end \"{names}\"), whichever for now",
        names = BackendKind::names(BackendKind::has_windows)
    )]
    NoPartitions(String),
    /// Several hosts with time partitions.
    #[error("several hosts have time partitions: {0}; name one with --host")]
    SeveralHosts(String),
    /// Modes.
    #[error(
        "the description has modes, and a frame is sized for one; leave `modes` out, or size a description of each"
    )]
    Modes,
    /// A partition of which nothing says how much it needs.
    #[error(
        "partition \"{domain}\" needs periodic tasks of its own, from which its window is sized"
    )]
    NoTasks {
        /// The domain.
        domain: String,
    },
    /// A step that is zero, or too coarse for every frame.
    #[error(
        "no frame on a grid of {grid} divides the hyperperiod of the tasks and holds {partitions} windows; choose a finer grid"
    )]
    Grid {
        /// The step.
        grid: Duration,
        /// The number of partitions.
        partitions: usize,
    },
    /// Every frame and placement on the grid was refuted.
    #[error("no frame and windows on a grid of {grid} meet all deadlines: {why}")]
    Infeasible {
        /// The step.
        grid: Duration,
        /// What refuted them.
        why: String,
    },
    /// More ways to choose the numbers of windows than can be searched.
    #[error(
        "up to {windows} windows for each partition are {choices} choices of their numbers, and {most} are searched; allow fewer, or \
         choose a coarser grid"
    )]
    Choices {
        /// The most windows of a partition.
        windows: u64,
        /// The choices in all frames.
        choices: u64,
        /// The most.
        most: u64,
    },
    /// The search ended without an answer.
    #[error(
        "{placements} placements were judged without an answer, which says nothing about the others; choose a coarser grid"
    )]
    Exhausted {
        /// The placements.
        placements: u64,
    },
}

impl FrameSizing {
    /// The answer as a part of a description.
    pub fn to_toml(&self) -> String {
        let frame = format!("[hosts.{}]\nmajor_frame = \"{}\"\n", self.host, self.frame);
        let mut domains: Vec<&str> = Vec::new();
        for window in &self.windows {
            if !domains.contains(&window.domain.as_str()) {
                domains.push(&window.domain);
            }
        }
        let windows = domains.iter().map(|domain| {
            let own = self.windows.iter().filter(|one| one.domain == *domain);
            let own = own.map(|window| {
                let SizedWindow { offset, length, .. } = window;
                format!("{{ offset = \"{offset}\", length = \"{length}\" }}")
            });
            let own = own.collect::<Vec<_>>().join(", ");
            format!("\n[domains.{domain}.reservation]\nwindows = [{own}]\n")
        });
        frame + &windows.collect::<String>()
    }
}

/// Sizes the frame of a host and the windows of its partitions.
///
/// # Errors
/// Nothing can be sized, nothing on the grid meets the deadlines, or the search ended before.
pub fn size_frame(query: &FrameQuery<'_>) -> Result<FrameSizing, FrameSizingError> {
    if !query.description.modes.is_empty() {
        return Err(FrameSizingError::Modes);
    }
    let host = host_of(query)?;
    let partitions = partitions_on(query.description, &host)?;
    let mut description = query.description.clone();
    let switch = description.hosts.get_mut(&host).map(|host| {
        if host.overheads.window_begin().is_zero() {
            host.overheads.window_switch = USUAL_SWITCH;
        }
        host.overheads.window_begin()
    });
    let setting = FrameSetting {
        query: *query,
        description,
        host,
        partitions,
        switch: switch.unwrap_or(USUAL_SWITCH),
    };
    let frames = setting.frames();
    if frames.is_empty() {
        return Err(FrameSizingError::Grid {
            grid: query.grid,
            partitions: setting.partitions.len(),
        });
    }
    if query.most_windows <= 1 {
        return even_windows(setting, &frames);
    }
    match even_windows(setting.clone(), &frames) {
        Ok(even) => with_less(setting, even),
        Err(
            refused @ (FrameSizingError::Infeasible { .. } | FrameSizingError::Exhausted { .. }),
        ) => uneven_windows(setting, refused),
        Err(refused) => Err(refused),
    }
}

/// The least windows of one length, evenly apart.
fn even_windows(
    setting: FrameSetting<'_>,
    frames: &[u64],
) -> Result<FrameSizing, FrameSizingError> {
    let query = setting.query;
    let mut candidates = Vec::new();
    for units in frames {
        let choices = setting.choices(*units)?;
        let sets = choices.iter().map(|own| own.len() as u64);
        let sets = sets.fold(1, u64::saturating_mul);
        let count = sets.saturating_add(candidates.len() as u64);
        if count > MOST_CHOICES {
            return Err(FrameSizingError::Choices {
                windows: query.most_windows,
                choices: count,
                most: MOST_CHOICES,
            });
        }
        candidates.extend(FrameCandidate::of_choices(*units, &choices));
    }
    if candidates.is_empty() {
        return Err(FrameSizingError::Infeasible {
            grid: query.grid,
            why: "in every frame, a partition needs more than its CPUs may give for the deadlines of its own tasks".into(),
        });
    }
    GridSearch::new(setting, candidates).answer()
}

/// Windows of a lesser share than the even ones, or these, with what is proved of all.
fn with_less(
    setting: FrameSetting<'_>,
    even: FrameSizing,
) -> Result<FrameSizing, FrameSizingError> {
    let grid_ns = setting.query.grid.as_nanos();
    let steps = |time: Duration| time.as_nanos() / grid_ns;
    let sum = even.windows.iter().map(|window| steps(window.length)).sum();
    let limit = (sum, steps(even.frame));
    let mut search = UnevenSearch::new(setting)?;
    let end = search.below(Some(limit))?;
    let placements = even.placements + search.judged();
    Ok(match end {
        UnevenEnd::Less(less) => FrameSizing { placements, ..less },
        UnevenEnd::Nothing(_) => FrameSizing {
            least_share: even.share,
            is_least: true,
            placements,
            ..even
        },
        UnevenEnd::Unfinished(least) => FrameSizing {
            least_share: least.min(even.share),
            is_least: least >= even.share,
            placements,
            ..even
        },
    })
}

/// Windows where even ones have no answer.
fn uneven_windows(
    setting: FrameSetting<'_>,
    refused: FrameSizingError,
) -> Result<FrameSizing, FrameSizingError> {
    let grid = setting.query.grid;
    let mut search = UnevenSearch::new(setting)?;
    match (search.below(None)?, refused) {
        (UnevenEnd::Less(less), _) => Ok(less),
        (UnevenEnd::Nothing(_), refused @ FrameSizingError::Infeasible { .. }) => Err(refused),
        (UnevenEnd::Nothing(why), _) => Err(FrameSizingError::Infeasible {
            grid,
            why: why.unwrap_or_else(|| "the windows do not fit into any frame".into()),
        }),
        (UnevenEnd::Unfinished(_), _) => Err(FrameSizingError::Exhausted {
            placements: search.judged(),
        }),
    }
}

fn host_of(query: &FrameQuery<'_>) -> Result<String, FrameSizingError> {
    if let Some(host) = query.host {
        let hosts = &query.description.hosts;
        return match hosts.contains_key(host) {
            true => Ok(host.to_owned()),
            false => Err(AssessmentError::Unknown {
                kind: "host",
                name: host.to_owned(),
                present: hosts.keys().cloned().collect::<Vec<_>>().join(", "),
            }
            .into()),
        };
    }
    let hosts = query.description.hosts.keys();
    let with: Vec<&String> = hosts
        .filter(|host| !names_on(query.description, host).is_empty())
        .collect();
    match with.as_slice() {
        [] => Err(FrameSizingError::NoPartitions("the description".into())),
        [only] => Ok((*only).clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            Err(FrameSizingError::SeveralHosts(names.join(", ")))
        }
    }
}

fn names_on(description: &Description, host: &str) -> Vec<String> {
    let domains = description.domains.iter().filter(|(_, domain)| {
        let here = description
            .host_of(domain)
            .is_some_and(|(name, _)| name == host);
        let reservation = domain.reservation.as_ref();
        here && reservation.is_some_and(|reservation| reservation.backend.has_windows())
    });
    domains.map(|(name, _)| name.clone()).collect()
}

/// The partitions of a host, those of chains first, in the order of the data.
fn partitions_on(description: &Description, host: &str) -> Result<Vec<String>, FrameSizingError> {
    let names = names_on(description, host);
    if names.is_empty() {
        return Err(FrameSizingError::NoPartitions(format!("host \"{host}\"")));
    }
    for name in &names {
        let tasks = &description.domains[name].tasks;
        let mut laws = tasks.values().map(|task| &task.arrivals);
        if tasks.is_empty() || !laws.all(|law| matches!(law, Arrivals::Periodic { .. })) {
            let domain = name.clone();
            return Err(FrameSizingError::NoTasks { domain });
        }
    }
    let chains: Chains = description.section();
    let mut ordered: Vec<String> = Vec::new();
    let in_chains = chains.0.values().flat_map(|chain| {
        let tasks: Vec<TaskName> = chain.tasks().map(|(_, task)| task).collect();
        tasks.into_iter().map(|task| task.domain)
    });
    for name in in_chains.chain(names.iter().cloned()) {
        if names.contains(&name) && !ordered.contains(&name) {
            ordered.push(name);
        }
    }
    Ok(ordered)
}

/// What all frames have in common.
#[derive(Clone)]
struct FrameSetting<'a> {
    query: FrameQuery<'a>,
    /// The description with the windows that are judged.
    description: Description,
    host: String,
    partitions: Vec<String>,
    switch: Duration,
}

impl FrameSetting<'_> {
    /// The frames of the grid, in steps.
    fn frames(&self) -> Vec<u64> {
        let grid_ns = self.query.grid.as_nanos();
        let periods = self.partitions.iter().flat_map(|name| {
            let tasks = self.description.domains[name].tasks.values();
            tasks.filter_map(|task| task.least_gap())
        });
        let periods: Vec<u64> = periods
            .map(Duration::as_nanos)
            .filter(|ns| *ns > 0)
            .collect();
        let longest_ns = periods.iter().copied().max().unwrap_or(0);
        let mut hyperperiod_ns = 1_u64;
        for period_ns in &periods {
            let shared = greatest_divisor(hyperperiod_ns, *period_ns);
            hyperperiod_ns = hyperperiod_ns.saturating_mul(period_ns / shared);
        }
        if grid_ns == 0 {
            return Vec::new();
        }
        let least = self.partitions.len().min(2) as u64;
        let steps = (least.max(1)..=longest_ns / grid_ns)
            .filter(|units| hyperperiod_ns.is_multiple_of(units * grid_ns));
        steps.collect()
    }

    fn time(&self, units: u64) -> Duration {
        self.query.grid.checked_mul(units).unwrap_or(Duration::MAX)
    }

    /// So many windows of a partition, evenly apart in a frame; `None` where a switch leaves nothing of them.
    fn windows(&self, units: u64, even: EvenWindows, offset: u64) -> Option<Vec<Window>> {
        let length = self.time(even.length);
        let offsets = even.offsets(units, offset).map(|offset| self.time(offset));
        let windows = offsets.map(|offset| Window { offset, length });
        (length > self.switch).then(|| windows.collect())
    }

    /// The numbers of windows that each partition may have in a frame, with their least lengths by the deadlines of the
    /// partition's own tasks. None of a partition for which a whole frame is too little.
    fn choices(&self, units: u64) -> Result<Vec<Vec<EvenWindows>>, AssessmentError> {
        let counts =
            || (1..=self.query.most_windows.max(1)).filter(|count| units.is_multiple_of(*count));
        let mut all = Vec::new();
        for name in &self.partitions {
            let mut own = Vec::new();
            for count in counts() {
                own.extend(self.least_windows(name, units, count)?);
            }
            all.push(own);
        }
        Ok(all)
    }

    fn least_windows(
        &self,
        name: &str,
        units: u64,
        count: u64,
    ) -> Result<Option<EvenWindows>, AssessmentError> {
        // Not by halves: a window that nearly fills the frame is refused by the admission.
        for length in 1..=units / count {
            if self.is_enough(name, units, EvenWindows { count, length })? {
                return Ok(Some(EvenWindows { count, length }));
            }
        }
        Ok(None)
    }

    /// Whether the tasks of a partition meet their deadlines in these windows alone.
    fn is_enough(
        &self,
        name: &str,
        units: u64,
        even: EvenWindows,
    ) -> Result<bool, AssessmentError> {
        let Some(windows) = self.windows(units, even, 0) else {
            return Ok(false);
        };
        let mut alone = self.description.clone();
        alone.domains.retain(|domain, _| domain == name);
        alone.services.clear();
        alone.sections = tailbound_model::Sections::default();
        if let Some(host) = alone.hosts.get_mut(&self.host) {
            host.major_frame = Some(self.time(units));
        }
        let Some(reservation) = alone
            .domains
            .get_mut(name)
            .and_then(|it| it.reservation.as_mut())
        else {
            return Ok(false);
        };
        let BackendTraits {
            smallest_budget, ..
        } = *reservation.backend.traits();
        if self.time(even.length) < smallest_budget {
            return Ok(false);
        }
        reservation.windows = windows;
        let verdicts = judge(&alone, self.query.inputs)?;
        let mut tasks = verdicts.iter().flat_map(|verdict| &verdict.tasks);
        Ok(tasks.all(|task| task.verdict == DeadlineVerdict::Met))
    }

    /// Whether the tasks of the partitions meet their deadlines, and the CPUs of the host hold the windows.
    fn holds(&self, verdicts: &[ModeVerdict]) -> bool {
        let is_here = |domain: &String| self.partitions.contains(domain);
        verdicts.iter().all(|verdict| {
            let mut tasks = verdict.tasks.iter().filter(|task| is_here(&task.domain));
            let mut cpus = verdict.cpus.iter().filter(|cpu| cpu.host == self.host);
            tasks.all(|task| task.verdict == DeadlineVerdict::Met) && cpus.all(|cpu| cpu.admitted)
        })
    }
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_divisor(b, a % b),
    }
}
